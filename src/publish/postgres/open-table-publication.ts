import { randomUUID } from 'node:crypto';
import { codeOf, failingOf } from '../../sql/postgres/postgres-error.ts';
import { keepalives } from '../../sql/postgres/connections.ts';
import type { Server } from '../../sql/postgres/server.ts';
import { settingSql, txOn, type Session } from '../../sql/postgres/session.ts';
import { valueSettings } from '../../sql/postgres/transaction-settings.ts';
import { manifestText, readManifest, type Manifest } from '../manifest.ts';
import { planTable } from '../tables/plan-table.ts';
import { publicationsOf, writeChanges } from '../tables/table-publications.ts';
import type { OpenPublication } from '../target.ts';
import { mergeRows, type Staged } from './merge-rows.ts';
import { columnsSql, copyInto, postgresTables, type PostgresTables } from './postgres-tables.ts';
import { shapeTable } from './shape-table.ts';
import { asked } from './target-error.ts';

interface TableTarget {
  readonly server: Server;
  /** The schema, quoted, with the point behind it. */
  readonly at: string;
  readonly deletes: 'mark' | 'remove';
  readonly signal: AbortSignal;
}

/**
 * One transaction: rows come into temporary tables, which lock nothing that others use, and only `commit` touches the
 * tables of the target. A publisher that is killed leaves nothing.
 */
export async function openTablePublication(target: TableTarget): Promise<OpenPublication> {
  const { server, at, deletes, signal } = target;
  const how = { place: server.place, signal };
  const transaction = await openTransaction(server, 'write', signal);
  const { tx } = transaction;
  const tables = postgresTables(tx, at, server.place);
  const staged: Staged[] = [];
  return {
    write: async (entity, rows) =>
      await asked(how, async () => {
        const plan = await planTable(tables, entity);
        const name = `stage_${staged.length + 1}`;
        const stage = `pg_temp.${name}`;
        const copy = copyInto(stage, entity);
        tx.put(`CREATE TEMPORARY TABLE ${name} (${columnsSql(entity)}) ON COMMIT DROP`);
        const written = await writeChanges(rows, async (records) => {
          copy(tx, records);
          await tx.sent();
        });
        staged.push({ plan, entity, stage, rows: written.upserts + written.deletes });
        return written;
      }),
    commit: async (manifest) =>
      await asked(how, async () => {
        const attempt = randomUUID();
        if (!(await takeNumber(tables, manifest, attempt))) return 'taken';
        for (const one of staged) {
          if (one.rows === 0 && one.plan.kind === 'keep' && one.plan.added.length === 0) continue;
          await shapeTable(tables, one.plan, one.entity);
          await mergeRows(tables, deletes, one);
        }
        await storeAll(tx, target, attempt);
        return 'published';
      }),
    [Symbol.asyncDispose]: async () => await transaction[Symbol.asyncDispose](),
  };
}

/**
 * The row with the number comes first: who publishes the same number meanwhile waits for this transaction, or this one
 * for that. False: the number is taken, or the newest publication is another one than the manifest follows.
 */
async function takeNumber(tables: PostgresTables, manifest: Manifest, attempt: string): Promise<boolean> {
  const { db: tx, at } = tables;
  const [newest] = await publicationsOf(tables, null, 1);
  const { previous, publication: number } = manifest;
  if ((newest?.number ?? 0) !== (previous?.publication ?? 0)) return false;
  if (newest?.sha256 !== previous?.sha256) return false;
  const text = manifestText(manifest);
  const { sha256 } = readManifest(text);
  tx.put(`SELECT set_config('lock_timeout', '1h', true)`);
  try {
    await tx.run(
      `INSERT INTO ${at}_publications (number, created_at, manifest, sha256, attempt)
       VALUES (:number, :createdAt::timestamptz, :manifest, :sha256, :attempt::uuid)`,
      { number, createdAt: manifest.createdAt, manifest: Buffer.from(text), sha256, attempt },
    );
  } catch (error) {
    if (codeOf(error) === '23505') return false;
    throw error;
  }
  tx.put(`SELECT set_config('lock_timeout', '5s', true)`);
  return true;
}

/**
 * Where the answer is lost, the server is asked whether it was stored. Where it is not seen there, it counts as failed:
 * the next publication follows what is there then, whatever became of this one.
 */
async function storeAll(tx: Session, { server, at }: TableTarget, attempt: string): Promise<void> {
  try {
    tx.put('COMMIT');
    await tx.sent();
  } catch (error) {
    if (failingOf(error) !== 'connection') throw error;
    const ask = `SELECT 1 AS one FROM ${at}_publications WHERE attempt = :attempt::uuid`;
    const found = await server.whileAway(
      async () => await server.read(async (later) => await later.first(ask, { attempt })),
    );
    if (found === undefined) throw error;
  }
}

/**
 * Statements go through whole tables, so they have no time limit; a lock on a table keeps all others from it, so they
 * wait for one for a moment only. The server ends the session of a dead client, and an idle one after an hour.
 */
const settings = {
  ...valueSettings,
  statement_timeout: '0',
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '1h',
  synchronous_commit: 'on',
  ...keepalives,
};

/**
 * A transaction on a separate connection. Disposed without `COMMIT`, nothing of it is stored. When the signal is
 * aborted the connection ends, and so does what waits for an answer.
 */
export async function openTransaction(server: Server, kind: 'write' | 'read', signal: AbortSignal) {
  signal.throwIfAborted();
  const client = await server.connect();
  const tx = txOn(client);
  const dispose = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort);
    tx.close();
    await client.end();
  };
  const onAbort = (): void => void dispose();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    // Each statement of a writer must see what was committed while it waited.
    tx.put(
      `BEGIN ISOLATION LEVEL ${kind === 'write' ? 'READ COMMITTED READ WRITE' : 'REPEATABLE READ READ ONLY'}`,
    );
    tx.put(settingSql(settings, 'transaction'));
    await tx.sent();
    return { tx, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
