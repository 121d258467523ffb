"""Text that topics and prompts are compared with, to know how similar unrelated ones are under a given model.

Changing a line changes the probabilities in `topics.py`: fit them again with `python -m bench.delivery.topics --fit`.
"""

from __future__ import annotations

BACKGROUND_TOPICS = (
    "user interface text", "database queries", "database schema changes", "data imports", "file uploads", "image processing",
    "authentication", "authorization", "password reset", "payments", "invoices and billing", "shopping cart", "search",
    "recommendations", "notifications", "e-mail delivery", "caching", "message queues", "background jobs", "cron jobs",
    "rate limiting", "REST endpoints", "GraphQL", "websockets", "HTTP clients", "retries and timeouts", "error handling",
    "exceptions", "logging", "metrics and tracing", "alerts", "dashboards", "configuration files", "environment variables",
    "feature flags", "secrets management", "encryption", "security vulnerabilities", "input validation", "code review",
    "pull requests", "commit messages", "branching strategy", "merge conflicts", "releases", "versioning", "changelog",
    "deployment", "rollbacks", "Docker images", "Kubernetes", "Terraform", "cloud infrastructure", "load balancers", "DNS",
    "firewalls", "continuous integration", "build system", "compiler warnings", "linting", "code formatting",
    "type annotations", "unit tests", "integration tests", "end-to-end tests", "test fixtures", "mocking", "test coverage",
    "flaky tests", "benchmarks", "profiling", "memory usage", "concurrency", "thread safety", "deadlocks", "async code",
    "refactoring", "naming conventions", "code style", "comments in code", "dead code", "deprecations", "public API design",
    "backwards compatibility", "dependencies", "package managers", "licences", "documentation", "tutorials",
    "README file", "API reference", "translations", "time zones and dates", "currencies", "number formatting",
    "text encoding", "regular expressions", "parsers", "serialization", "JSON", "CSV files", "spreadsheets", "PDF export",
    "printing", "charts", "maps and geolocation", "forms", "buttons and menus", "CSS styling", "responsive layout",
    "dark mode", "accessibility", "animations", "keyboard shortcuts", "navigation", "routing", "state management",
    "React components", "server-side rendering", "browser compatibility", "cookies", "analytics", "A/B testing",
    "search engine ranking", "content management", "comments and moderation", "chat", "video streaming", "audio playback",
    "mobile apps", "app store release", "push messages", "offline mode", "synchronization", "Bluetooth", "sensors",
    "battery life", "firmware updates", "device drivers", "embedded systems", "graphics rendering", "game physics",
    "level design", "multiplayer", "machine learning models", "model training", "datasets", "feature engineering",
    "embeddings", "prompts for language models", "data pipelines", "data warehouse", "streaming data", "data quality",
    "data privacy", "audit trail", "backups", "disaster recovery", "storage costs", "scaling", "microservices",
    "monorepo layout", "plugins", "command line tools", "shell scripts", "editor settings", "garbage collection",
    "compiler optimization", "numerical accuracy", "sorting algorithms", "data structures", "access roles",
    "user accounts", "onboarding", "customer support", "legal requirements", "project planning", "team meetings",
)  # fmt: skip
"""Topics of software work, from all its fields."""

BACKGROUND_PROMPTS = (
    "fix the failing test", "why does this not compile?", "rename the variable to something clearer",
    "add a button to the page", "explain what this function does", "commit the changes", "open a pull request",
    "go on", "yes, do that", "no, revert this and try something else", "what changed since yesterday?",
    "the build is broken on main", "write a script that reads the file and prints the ten longest lines",
    "move this class into its own file", "remove the unused imports", "add type hints to this module",
    "update the dependencies", "the page is blank after the last change", "make this function faster",
    "there is an off-by-one error in the loop", "use a dataclass here", "split this function, it is too long",
    "write unit tests for the parser", "add a flag to the command line", "why is the response empty?",
    "the request returns 404", "add a column to the table", "change the colour of the header",
    "document the new option", "where is this setting read?", "which files use this helper?",
    "show me the last error in the log", "the container does not start", "deploy the current branch to staging",
    "merge main into this branch", "resolve the conflicts", "the user cannot log in", "send a mail when the job is done",
    "cache the result for an hour", "retry the request three times", "validate the input of the form",
    "translate the labels", "convert this to TypeScript", "format the date as ISO", "parse the arguments",
    "handle the case of an empty list", "the query is slow", "add an index", "store the settings in a file",
    "read the key from the environment", "download the data and count the rows", "plot the result",
    "train the model again with a smaller learning rate", "the chart shows the wrong axis", "export the list as CSV",
    "add paging to the endpoint", "return an error if the id is unknown", "log the duration of each step",
    "the animation is not smooth", "support dark mode", "the menu does not close on mobile",
    "the tests are flaky", "run the linter and fix what it reports", "what is the difference between these two?",
    "write a short summary of this module", "think about the design first, then make a plan",
    "implement the next item of the plan", "that is not what I meant", "use the existing helper instead",
    "here is the stack trace, find the cause", "the process uses too much memory", "two threads write to the same map",
    "the migration failed halfway", "copy the old behaviour exactly", "clean up the temporary files",
    "delete the old implementation", "make the message friendlier", "the upload stops at 50 percent",
    "check the access rights before deleting", "prepare the release", "bump the version", "write the changelog",
    "the price is rounded wrongly", "show a warning when the disk is full", "the socket is closed too early",
    "sort the results by date", "the search finds nothing", "generate an id for each entry", "compress the images",
    "add a health check", "increase the timeout", "the job runs twice", "hide the field for guests",
    "play a sound when it is done", "the device does not connect", "the enemy walks through walls",
    "compare the two approaches", "look at the issue and tell me what you think", "simplify this",
)  # fmt: skip
"""Requests to a coding agent, of all kinds."""
