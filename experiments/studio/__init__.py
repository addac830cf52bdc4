"""The studio: how soon it answers, and pictures of its page."""
