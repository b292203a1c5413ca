"""Orchestration: scheduler, users, sane defaults."""
