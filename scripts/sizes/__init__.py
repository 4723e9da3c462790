"""Count lines, statements and other numbers of this project, against budgets that may only fall."""
