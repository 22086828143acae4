-- A digest of the request that created a user: a repeated request is told from another one by it, also after an edit of the user.
ALTER TABLE :"schema".users ADD COLUMN IF NOT EXISTS creation_digest varchar(64);
