"""The studio's document, its files, and what is recovered after a crash."""
