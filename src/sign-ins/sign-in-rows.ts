import type { Instant } from '../core/clock.ts';
import { write } from '../sql/database.ts';
import type { SignInFacts, StoredSignIn } from './sign-in.ts';

export interface SignInRow extends Omit<StoredSignIn, 'tokens'> {
  readonly tokens: string;
}

export const signInsSql = `CREATE TABLE IF NOT EXISTS _sync_sign_ins (
  connector TEXT PRIMARY KEY,
  revision TEXT NOT NULL,
  tokens TEXT NOT NULL,
  signed_in_at TEXT NOT NULL,
  renewed_at TEXT,
  account TEXT,
  access_until TEXT,
  ends_at TEXT,
  begun_at TEXT,
  begun_by TEXT,
  begun_until BIGINT,
  refusal TEXT
)`;

const facts = 'signed_in_at, renewed_at, account, access_until, ends_at, begun_at, refusal';

export const readSql = `SELECT tokens, revision, ${facts} FROM _sync_sign_ins WHERE connector = :connector`;

export const readFactsSql = `SELECT ${facts} FROM _sync_sign_ins WHERE connector = :connector`;

type RowKey = { readonly connector: string; readonly revision: string };

/** Tokens, sealed or not, and until when they serve. */
type NewRow = Pick<SignInFacts, 'accessUntil' | 'endsAt'> & {
  readonly tokens: string;
  readonly at: Instant;
};

export const storeRow = write<RowKey & NewRow>(
  `INSERT INTO _sync_sign_ins (connector, revision, tokens, signed_in_at, access_until, ends_at)
   VALUES (:connector, :revision, :tokens, :at, :accessUntil, :endsAt)
   ON CONFLICT (connector) DO UPDATE SET revision = excluded.revision, tokens = excluded.tokens,
     signed_in_at = excluded.signed_in_at, renewed_at = NULL, account = NULL, access_until = excluded.access_until,
     ends_at = excluded.ends_at, begun_at = NULL, begun_by = NULL, begun_until = NULL, refusal = NULL`,
);

export const nameRow = write<{ readonly connector: string; readonly account: string }>(
  'UPDATE _sync_sign_ins SET account = :account WHERE connector = :connector',
);

export const claimRow = write<
  RowKey & {
    readonly by: string;
    readonly at: Instant;
    readonly now: number;
    readonly until: number;
    readonly isAlone: 0 | 1;
  }
>(
  `UPDATE _sync_sign_ins SET begun_at = :at, begun_by = :by, begun_until = :until
   WHERE connector = :connector AND revision = :revision AND refusal IS NULL
     AND (:isAlone = 1 OR begun_until IS NULL OR begun_until < :now)`,
);

export const renewRow = write<RowKey & NewRow & { readonly next: string }>(
  `UPDATE _sync_sign_ins SET revision = :next, tokens = :tokens, renewed_at = :at, access_until = :accessUntil,
     ends_at = :endsAt, begun_at = NULL, begun_by = NULL, begun_until = NULL, refusal = NULL
   WHERE connector = :connector AND revision = :revision`,
);

export const endRow = write<
  RowKey & { readonly by: string; readonly refusal: string | null; readonly begunAt: Instant | null }
>(
  `UPDATE _sync_sign_ins SET refusal = :refusal, begun_at = :begunAt, begun_by = NULL, begun_until = NULL
   WHERE connector = :connector AND revision = :revision AND begun_by = :by`,
);

export const removeRow = write<{ readonly connector: string }>(
  'DELETE FROM _sync_sign_ins WHERE connector = :connector',
);
