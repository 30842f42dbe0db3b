"""EVALB, the scorer of constituency trees that published WSJ results use (section 6.3, Table 4).

It compares labelled spans of words. Its rules, with the parameters of COLLINS.prm:

1. A line is a sentence, in both files. An empty predicted line is skipped (status 2).
2. Words tagged `-NONE-` , : `` '' or . are deleted on both sides; constituents that hold no other
   word do not count, nor does TOP. An empty root label, `( (S ...))`, does count.
3. The words that are left must be the same, else the sentence is an error (status 1) and counts
   nowhere but in the number of errors; so is one whose brackets do not balance.
4. From a label all that follows the first - or = is cut: NP-SBJ and NP=2 are NP. Tags stay.
5. A predicted constituent matches one gold constituent of its span and label; ADVP equals PRT. What
   occurs n times in gold and m times in the prediction matches min(n, m) times.
6. Recall is matched / gold, precision matched / predicted, F1 their harmonic mean, over all valid
   sentences together. Crossing is a predicted constituent that overlaps some gold one. Tagging
   accuracy is over the words that are left.
7. A second summary has the sentences of at most 40 words, gold punctuation counted, traces not.

What differs from the C program, on purpose:

- It has no limits. The C program stops after MAX_ERROR errors, splits lines of 5,000 bytes, and
  writes outside of its arrays from 200 words or constituents or longer labels on.
- Text outside of `(TAG word)` is a ValueError that names the line; there the C program reports the
  same error without end until MAX_ERROR stops it. `(TAG word )`, which it takes for that, is read.
- Different numbers of lines and empty files are a ValueError; it prints a summary of what it read.
- F1 is 0 where recall and precision are, not NaN.
- A closing bracket too many is always an error; it forgives one for which another is not closed
  later, and the figures on such a sentence's own line depend on what its memory held before.
- Text must be UTF-8; a byte order mark is dropped.
- A parameter file with an unknown keyword or a wrong value is a ValueError, not a warning.
"""
