-- The tables of the seeds: seven indexes and the trigger for updated_at. Ids come from gen_random_uuid, which makes the same kind
-- as the extension uuid-ossp and is always there.
CREATE TABLE users (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    first_name VARCHAR(100) NOT NULL CHECK (LENGTH(first_name) > 0),
    last_name VARCHAR(100) NOT NULL CHECK (LENGTH(last_name) > 0),
    date_of_birth DATE NOT NULL CHECK (date_of_birth < CURRENT_DATE),
    timezone VARCHAR(100) NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

CREATE TABLE events (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id UUID NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    event_type VARCHAR(50) NOT NULL DEFAULT 'BIRTHDAY',
    status VARCHAR(20) NOT NULL CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    target_timestamp_utc TIMESTAMPTZ NOT NULL,
    target_timestamp_local TIMESTAMPTZ NOT NULL,
    target_timezone VARCHAR(100) NOT NULL,
    executed_at TIMESTAMPTZ,
    failure_reason TEXT,
    retry_count INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0 AND retry_count <= 3),
    version INTEGER NOT NULL DEFAULT 1,
    idempotency_key VARCHAR(255) NOT NULL UNIQUE,
    delivery_payload JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);

CREATE INDEX idx_events_user_id ON events(user_id);
CREATE INDEX idx_events_status ON events(status);
CREATE INDEX idx_events_target_timestamp_utc ON events(target_timestamp_utc);
CREATE INDEX idx_events_scheduler_query ON events(target_timestamp_utc, status) WHERE status = 'PENDING';
CREATE INDEX idx_events_user_pending ON events(user_id, status) WHERE status = 'PENDING';

CREATE FUNCTION update_updated_at_column() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at = NOW();
    RETURN NEW;
END;
$$;

CREATE TRIGGER update_users_updated_at BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();
CREATE TRIGGER update_events_updated_at BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();
