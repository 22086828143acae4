-- Store which pending event of a stopped broadcast was looked at last, and that there may be more to do now.
--   @name text · @at timestamptz (its available_at) · @id uuid
UPDATE :"schema".broadcasts b
SET cancel_at = @at::timestamptz, cancel_id = @id::uuid, look_at = clock_timestamp()
WHERE b.name = @name::text
