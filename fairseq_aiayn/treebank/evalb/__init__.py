"""EVALB, the scorer of constituency trees that published WSJ results use (section 6.3, Table 4).

It compares labelled spans of words. Its rules, with the parameters of COLLINS.prm:

1. A line is a sentence, in both files. An empty predicted line is skipped (status 2).
2. Words tagged `-NONE-` , : `` '' or . are deleted on both sides. Constituents that hold no other
   word do not count, and neither does TOP. An empty root label, `( (S ...))`, does count.
3. The words that are left must be the same on both sides. Otherwise the sentence is an error
   (status 1), and so is one whose brackets do not balance. An error counts only in the number of
   errors.
4. A label is cut at the first - or =: NP-SBJ and NP=2 are NP. Tags stay unchanged.
5. A predicted constituent matches one gold constituent with the same span and label; ADVP equals
   PRT. A constituent that occurs n times in gold and m times in the prediction matches min(n, m)
   times.
6. Recall is matched / gold, precision is matched / predicted, and F1 is their harmonic mean, over
   all valid sentences together. A predicted constituent that overlaps some gold one, and neither
   contains the other, is crossing. Tagging accuracy is over the words that are left.
7. A second summary has the sentences of at most 40 words, counting gold punctuation but not traces.

Intended differences from the C program:

- There are no limits. The C program stops after MAX_ERROR errors, splits lines of 5,000 bytes, and
  writes outside of its arrays from 200 words or constituents on, or for longer labels.
- Text outside of `(TAG word)` is a ValueError that names the line. The C program repeats the same
  error until MAX_ERROR stops it. `(TAG word )` is read, although the C program refuses it, too.
- Different numbers of lines and empty files are a ValueError. The C program prints a summary of the
  lines that it has read.
- F1 is 0, not NaN, if recall and precision are 0.
- A closing bracket too many is always an error. The C program accepts it if another bracket is not
  closed later, and the figures on the line of such a sentence depend on previous memory content.
- Text must be UTF-8; a byte order mark is dropped.
- A parameter file with an unknown keyword or a wrong value is a ValueError, not a warning.
"""
