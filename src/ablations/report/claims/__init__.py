"""The chapter's sentences as predicates on the results: what is asked (`quantity`), and what follows (`verdict`)."""
