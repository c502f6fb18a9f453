"""The studio: a design tool in the browser, served from Python; see pointglue.studio.server."""
