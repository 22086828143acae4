-- Add users of a page to the counts of a zone. Later readings meet the users again who have no event: of those, they count the new events, and the
-- refused users anew.
--   @name text · @zone text · @first boolean (whether it is the first page of a reading) · @users, @stored, @opted_out, @refused, @locked,
--   @left_out bigint
UPDATE :"schema".broadcast_zones z
SET users_read = z.users_read + CASE WHEN z.reads = 0 THEN @users::bigint ELSE @stored::bigint END,
    stored = z.stored + @stored::bigint,
    opted_out = z.opted_out + CASE WHEN z.reads = 0 THEN @opted_out::bigint ELSE 0::bigint END,
    refused = CASE WHEN @first::boolean THEN 0::bigint ELSE z.refused END + @refused::bigint,
    locked = CASE WHEN @first::boolean THEN 0::bigint ELSE z.locked END + @locked::bigint,
    left_out = z.left_out + CASE WHEN z.reads = 0 THEN @left_out::bigint ELSE 0::bigint END
WHERE z.broadcast = @name::text AND z.zone = @zone::text
