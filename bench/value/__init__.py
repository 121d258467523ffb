"""Whether an agent with lorelog does better: public tasks, judged by execution and by gold answers, without a model."""
