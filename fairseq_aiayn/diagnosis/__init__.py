"""In what a training differs from the paper's, what that costs, and what to change.

cli/ prints it and report/ adds it to a run's page. It imports runs, corpus, settings, paper,
scores, configuration and checkpoints. What a file says is evidence.py's, what follows from it
aspects.py's and course.py's.
"""
