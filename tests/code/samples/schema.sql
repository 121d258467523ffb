-- People who log in.
CREATE TABLE IF NOT EXISTS app.users (
    id INT PRIMARY KEY,
    name TEXT NOT NULL,
    org_id INT REFERENCES orgs(id)
);

CREATE VIEW active AS
    SELECT u.id, lower(u.name) FROM users u JOIN orgs o ON o.id = u.org_id;

CREATE INDEX idx_users ON users (name);

CREATE OR REPLACE FUNCTION add_one(x INT) RETURNS INT AS $$ SELECT x + 1; $$ LANGUAGE sql;

CREATE TYPE mood AS ENUM ('glad', 'sad');

ALTER TABLE users ADD COLUMN age INT;
INSERT INTO users (id, name) VALUES (1, upper('x'));
UPDATE users SET name = 'y' WHERE id = 1;
DELETE FROM users;
