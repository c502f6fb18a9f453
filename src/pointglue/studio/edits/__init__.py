"""The edits of a document, one function for each command of the page."""
