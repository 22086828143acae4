-- Store which pending event of a stopped broadcast was looked at last.
--   @name text · @at timestamptz (its available_at) · @id uuid
UPDATE :"schema".broadcasts b
SET cancel_at = @at::timestamptz, cancel_id = @id::uuid
WHERE b.name = @name::text
