"""The session behind the page: previews, playback, and what is displayed."""
