import { instant } from '../../core/clock.ts';
import { quoted } from '../../sql/quoted.ts';
import { openServer } from '../../sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../sql/postgres/session.ts';
import type { PublishPlace } from '../../settings/settings.ts';
import { checkTables, lostTables } from '../tables/check-tables.ts';
import { publicationsOf, tablePublications } from '../tables/table-publications.ts';
import { nothingChecked, type PrunedTarget, type Target } from '../target.ts';
import { openTablePublication, openTransaction } from './open-table-publication.ts';
import { postgresTables } from './postgres-tables.ts';
import { asked, incompatible, toTargetError } from './target-error.ts';
import { isTargetThere, makeTarget } from './target-schema.ts';

export type PostgresPlace = Extract<PublishPlace, { readonly type: 'postgres' }>;

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
  const how = { place, signal };
  /** In one state; `otherwise` where no target is there yet. */
  const read = async <Result>(otherwise: Result, work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await asked(
      how,
      async () =>
        await server.read(async (tx) =>
          (await isTargetThere(tx, schema, place)) ? await work(tx) : otherwise,
        ),
    );
  return {
    ...tablePublications(
      async (first, limit) =>
        await read([], async (tx) => await publicationsOf({ db: tx, at }, first, limit)),
      (found, advice) => incompatible(place, found, advice),
    ),
    lost: async (_newest, entities) =>
      await read([], async (tx) => await lostTables(postgresTables(tx, at, place), entities)),
    begin: async () =>
      await asked(how, async () => {
        const isThere = await server.read(async (tx) => await isTargetThere(tx, schema, place));
        if (!isThere) await server.transact(async (tx) => await makeTarget(tx, schema, place));
        return await openTablePublication({ server, at, deletes, signal });
      }),
    probe: async () =>
      await asked(how, async () => {
        await using transaction = await openTransaction(server, 'write', signal);
        await makeTarget(transaction.tx, schema, place);
        await transaction.tx.run(
          `INSERT INTO ${at}_publications (number, created_at, manifest, sha256, attempt)
           VALUES (-1, now(), '{}', '', gen_random_uuid())`,
        );
      }),
    check: async (until) => {
      const either = AbortSignal.any([signal, until]);
      return await asked({ place, signal: either }, async () => {
        await using transaction = await openTransaction(server, 'read', either);
        const { tx } = transaction;
        if (!(await isTargetThere(tx, schema, place))) return nothingChecked;
        return { files: 0, ...(await checkTables(postgresTables(tx, at, place))) };
      });
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
        how,
        async () => await server.transact(async (tx) => await tx.run(`DELETE ${old}`, values)),
      );
      return { ...nothing, publications: removed };
    },
    [Symbol.asyncDispose]: async () => await server[Symbol.asyncDispose](),
  };
}
