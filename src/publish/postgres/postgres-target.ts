import { instant } from '../../core/clock.ts';
import { quoted } from '../../sql/quoted.ts';
import { openServer } from '../../sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { PublishPlace } from '../../settings/settings.ts';
import type { PrunedTarget, Target } from '../target.ts';
import { checkTables } from './check-tables.ts';
import { lostTables } from './lost-tables.ts';
import { openTransaction } from './one-transaction.ts';
import { openTablePublication } from './open-table-publication.ts';
import { toTargetError } from './target-error.ts';
import {
  isTargetThere,
  makeIn,
  makeTarget,
  manifestOf,
  newestPublication,
  publicationsFrom,
} from './target-schema.ts';

export type PostgresPlace = Extract<PublishPlace, { readonly type: 'postgres' }>;

const manifestsAtOnce = 20;

/**
 * Tables in a schema of PostgreSQL that show the newest publication. Nothing is asked of the server before it is
 * needed.
 */
export function openPostgresTarget(
  { connection, schema, deletes }: PostgresPlace,
  signal: AbortSignal,
): Target {
  const server = openServer({
    connection,
    direct: null,
    schema,
    connections: 2,
    durability: 'full',
    explain: toTargetError,
    signal,
  });
  const { place } = server;
  const at = `${quoted(schema)}.`;
  const asked = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      throw toTargetError(error, place);
    }
  };
  /** In one state; `otherwise` where no target is there yet. */
  const read = async <Result>(otherwise: Result, work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await asked(
      async () =>
        await server.read(async (tx) =>
          (await isTargetThere(tx, schema, place)) ? await work(tx) : otherwise,
        ),
    );
  return {
    hasFiles: false,
    layout: null,
    newest: async () => {
      const newest = await read(null, async (tx) => await newestPublication(tx, at));
      return newest === null ? null : manifestOf(newest, place);
    },
    manifests: async function* (first) {
      for (let from = first; ;) {
        const next = from;
        const rows = await read([], async (tx) => await publicationsFrom(tx, at, next, manifestsAtOnce));
        for (const row of rows) yield manifestOf(row, place);
        const last = rows.at(-1);
        if (last === undefined || rows.length < manifestsAtOnce) return;
        from = last.number + 1;
      }
    },
    lost: async (_newest, entities) => await read([], async (tx) => await lostTables(tx, at, entities)),
    begin: async (number) =>
      await asked(async () => {
        await makeTarget(server, schema);
        return await openTablePublication({ server, at, deletes, number, signal });
      }),
    probe: async () =>
      await asked(async () => {
        await using transaction = await openTransaction(server, 'write', signal);
        await makeIn(transaction.tx, schema, place);
        await transaction.tx.run(
          `INSERT INTO ${at}_publications (number, created_at, manifest, sha256, attempt)
           VALUES (-1, now(), '{}', '', gen_random_uuid())`,
        );
      }),
    check: async (until) => {
      const either = AbortSignal.any([signal, until]);
      try {
        await using transaction = await openTransaction(server, 'read', either);
        const { tx } = transaction;
        if (await isTargetThere(tx, schema, place)) return await checkTables(tx, at);
        return { publications: 0, files: 0, rows: 0, bytes: 0, problems: [] };
      } catch (error) {
        either.throwIfAborted();
        throw toTargetError(error, place);
      }
    },
    prune: async (keepFromMs, isDryRun) => {
      const nothing: PrunedTarget = { publications: 0, files: 0, bytes: 0, waiting: { files: 0, bytes: 0 } };
      if (keepFromMs === null) return nothing;
      const old = `FROM ${at}_publications AS p WHERE EXISTS (SELECT 1 FROM ${at}_publications AS later
        WHERE later.number > p.number AND later.created_at < :keepFrom::timestamptz)`;
      const values = { keepFrom: instant(keepFromMs) };
      const found = await read([], async (tx) => await tx.rows(`SELECT p.number ${old}`, values));
      if (isDryRun || found.length === 0) return { ...nothing, publications: found.length };
      const removed = await asked(
        async () => await server.transact(async (tx) => await tx.run(`DELETE ${old}`, values)),
      );
      return { ...nothing, publications: removed };
    },
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}
