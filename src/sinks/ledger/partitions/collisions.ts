import { grouped } from '../../../core/grouped.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { EntityName } from '../../../core/names.ts';
import { ask } from '../../../sql/database.ts';
import { standing } from '../../decisions/standing.ts';
import type { Doubt } from '../../partition.ts';
import { parseProof } from '../../stored-json.ts';
import type { Commit } from '../ledger.ts';
import { beginWalks, type Begun } from './find-partitions.ts';
import { transitions } from './transitions.ts';

/* Rows of one key that several listings show with different content: the key lacks what tells them apart. */

/** A listing with more rows is read again only where so many of its rows were met in it and changed elsewhere. */
const mostRowsAgain = 1_000;
const changedOfLong = 10;

/** Doubts the listings of these rows, those that were sealed before among them. */
export async function doubtListings(
  { current: { collisions, origin }, tx }: Commit,
  entity: EntityName,
  rows: Iterable<number>,
): Promise<void> {
  const changed = collisions.byEntity.get(entity);
  const doubts = new Map<number, Doubt>();
  for (const row of rows) {
    const { owner = 0, by = [] } = changed?.get(row) ?? {};
    for (const other of by) {
      doubts.set(owner, { kind: 'collision', row, other });
      doubts.set(other, { kind: 'collision', row, other: owner });
    }
  }
  if (doubts.size === 0) return;
  collisions.found.add(entity);
  const sealed = await readProofs(tx, { ids: [...doubts.keys()] });
  for (const [id, doubt] of doubts) collisions.doubts.set(id, doubt);
  await transitions.doubt(tx, {
    origin,
    doubted: sealed.map(({ id, proof }) => {
      const doubt = { ...doubts.get(id), runs: 1 };
      return { id, proof: writeJson({ ...parseProof(proof), readAt: null, doubt }) };
    }),
  });
}

const readProofs = ask<{ ids: readonly number[] }, { readonly id: number; readonly proof: string }>(
  `SELECT id, proof FROM _sync_partitions WHERE id IN {ids bigint} AND proof IS NOT NULL`,
);

/**
 * When nothing else is ready: makes the owners of changed rows ready again, twice as many each time, until two listings
 * of the entity collide for certain; then the others count as colliding, too. Gives how many.
 */
export async function readOwnersAgain(commit: Commit): Promise<number> {
  const { held, current, tx, stamp } = commit;
  const { collisions, origin, reading } = current;
  const begun: Begun[] = [];
  for (const [entity, rows] of collisions.byEntity) {
    if (collisions.found.has(entity)) {
      await doubtListings(commit, entity, rows.keys());
      continue;
    }
    const changed = grouped([...rows.values()], ({ owner }) => owner);
    const ids = [...changed.keys()].filter((id) => !collisions.readAgain.has(id));
    const owners = (await readIdle(tx, { ids, origin })).map(({ id }) => ({ owner: id, after: 0 }));
    const counts = await current.tables.get(entity)?.countLive(tx, owners, mostRowsAgain + 1);
    const short = owners.filter(({ owner }) => {
      const met = changed.get(owner)?.filter(({ wasMet }) => wasMet).length ?? 0;
      return (counts?.get(owner) ?? 0) <= mostRowsAgain || met >= changedOfLong;
    });
    const few = short.slice(0, collisions.readAgain.size + 1);
    begun.push(...few.map(({ owner: id }) => ({ id, entity, mode: 'full' as const })));
  }
  for (const { id } of begun) collisions.readAgain.add(id);
  await beginWalks(tx, { connector: held.connector, origin, now: stamp.now, reading }, begun);
  return begun.length;
}

/** Those that are not due and that a record, or this chain, has led to. */
const readIdle = ask<{ ids: readonly number[]; origin: number }, { readonly id: number }>(
  `SELECT id FROM _sync_partitions WHERE id IN {ids bigint} AND gone = ${standing.live} AND due_since IS NULL
     AND backfill = '' AND (parent_key IS NOT NULL OR origin = :origin) ORDER BY id`,
);
