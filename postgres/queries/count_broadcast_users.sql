-- Add users of a page to the counts of a zone. Later readings meet the users again who have no event. Until a later reading has come to the end,
-- opted_out and refused are those of the reading before: see move_broadcast_zone.sql.
--   @name text · @zone text · @first boolean (whether it is the first page of a reading) · @users, @stored, @opted_out, @refused, @locked,
--   @left_out bigint
UPDATE :"schema".broadcast_zones z
SET users_read = CASE WHEN z.reads = 0 THEN z.users_read + @users::bigint ELSE greatest(z.users_read, z.stored + @stored::bigint) END,
    stored = z.stored + @stored::bigint,
    opted_out = z.opted_out + CASE WHEN z.reads = 0 THEN @opted_out::bigint ELSE 0::bigint END,
    refused = z.refused + CASE WHEN z.reads = 0 THEN @refused::bigint ELSE 0::bigint END,
    now_opted_out = CASE WHEN @first::boolean THEN 0::bigint ELSE z.now_opted_out END + @opted_out::bigint,
    now_refused = CASE WHEN @first::boolean THEN 0::bigint ELSE z.now_refused END + @refused::bigint,
    locked = CASE WHEN @first::boolean THEN 0::bigint ELSE z.locked END + @locked::bigint,
    left_out = z.left_out + CASE WHEN z.reads = 0 THEN @left_out::bigint ELSE 0::bigint END
WHERE z.broadcast = @name::text AND z.zone = @zone::text
