-- Store which cancelled event of a broadcast was looked at last. After the last one of all, those whose users were locked are looked at again in ten
-- seconds.
--   @name text · @requeued uuid (NULL: that was the last one of all) · @missed uuid (the position before the first event whose user was locked; NULL: none was)
UPDATE :"schema".broadcasts b
SET requeued = coalesce(@requeued::uuid, b.missed, @missed::uuid), -- pages come in the order of ids
    missed = CASE WHEN @requeued::uuid IS NOT NULL THEN coalesce(b.missed, @missed::uuid) END,
    requeue_at = CASE WHEN @requeued::uuid IS NOT NULL THEN b.requeue_at
        WHEN coalesce(b.missed, @missed::uuid) IS NOT NULL THEN clock_timestamp() + interval '10 seconds' END
WHERE b.name = @name::text
