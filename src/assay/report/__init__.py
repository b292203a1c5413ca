"""A judgement for people and programs: text, HTML, Markdown, JUnit. Pure: judgement in, text out."""
