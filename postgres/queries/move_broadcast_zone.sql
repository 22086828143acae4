-- Store how far a zone of a broadcast was read. At the end, the users who have opted out or were refused are those of this reading.
--   @name text · @zone text · @position uuid (NULL: to the end) · @next timestamptz (when it is read again, if it was read to the end; NULL: never)
UPDATE :"schema".broadcast_zones z
SET position = @position::uuid, reads = z.reads + CASE WHEN @position::uuid IS NULL THEN 1 ELSE 0 END,
    next_at = CASE WHEN @position::uuid IS NULL THEN @next::timestamptz ELSE z.next_at END,
    opted_out = CASE WHEN @position::uuid IS NULL THEN z.now_opted_out ELSE z.opted_out END,
    refused = CASE WHEN @position::uuid IS NULL THEN z.now_refused ELSE z.refused END,
    users_read = CASE WHEN @position::uuid IS NULL THEN greatest(z.users_read, z.stored + z.now_opted_out + z.now_refused + z.left_out)
        ELSE z.users_read END
WHERE z.broadcast = @name::text AND z.zone = @zone::text
