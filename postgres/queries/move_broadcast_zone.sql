-- Store how far a zone of a broadcast was read.
--   @name text · @zone text · @position uuid (NULL: to the end) · @next timestamptz (when it is read again, if it was read to the end; NULL: never)
UPDATE :"schema".broadcast_zones z
SET position = @position::uuid, reads = z.reads + CASE WHEN @position::uuid IS NULL THEN 1 ELSE 0 END,
    next_at = CASE WHEN @position::uuid IS NULL THEN @next::timestamptz ELSE z.next_at END
WHERE z.broadcast = @name::text AND z.zone = @zone::text
