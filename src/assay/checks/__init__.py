"""Rules: facts in, verdicts out. Pure; one package per rating category."""
