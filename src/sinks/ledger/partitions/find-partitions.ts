import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { decideMode, isUnchanged, neverWalked, type ChainReading } from '../../decisions/becoming-due.ts';
import { writeJson } from '../../../core/json-text.ts';
import { standing } from '../../decisions/standing.ts';
import type { FoundPartition, Partition } from '../../partition.ts';
import type { Tx } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { knownName, knownPartitions, type KnownRow } from './read-partitions.ts';
import { transitions } from './transitions.ts';
import type { FoundAgain } from './walking.ts';

export interface Finding {
  readonly connector: ConnectorName;
  /** '' for the living partitions. */
  readonly window: string;
  /** Number of the chain's first run. */
  readonly origin: number;
  readonly now: Instant;
  /** An entity that is not in it is not read by the run: its partitions are due, but left to a run that does. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
}

/** A found partition as it is stored, and where in the caller's list it stands. */
interface Found {
  readonly index: number;
  readonly entity: EntityName;
  readonly found: FoundPartition;
  readonly params: string;
  readonly paramsHash: Buffer;
  readonly name: string;
}

/** A partition to be made ready. */
export type Begun = Pick<Partition, 'id' | 'entity' | 'mode'>;

/** Reads what is known of found partitions. One that is given twice is found once. */
export async function meetFound(tx: Tx, founds: readonly FoundPartition[], finding: Finding) {
  const distinct = firstOfEach(founds);
  const known =
    founds.length === 0 ? new Map<string, KnownRow>() : await knownPartitions(tx, finding, distinct);
  return { count: founds.length, distinct, known };
}

/**
 * Makes partitions due unless this chain already found them or nothing has changed in them; for each, whether it became
 * due. One that is given twice becomes due once.
 */
export async function findPartitions(
  tx: Tx,
  { count, distinct, known }: Awaited<ReturnType<typeof meetFound>>,
  finding: Finding,
): Promise<readonly boolean[]> {
  const isDue = Array.from({ length: count }, () => false);
  if (count === 0) return isDue;
  const { connector, window, origin, now, reading } = finding;
  const open = distinct.filter(({ name }) => known.get(name)?.origin !== origin);
  const bases = await findBases(tx, open, finding);
  const baseOf = ({ found }: Found): number | null =>
    found.base === null ? null : (bases.get(baseName(found.entity, writeJson(found.base))) ?? null);
  const chain = { origin, now };

  const unknown = open.filter(({ name }) => !known.has(name));
  if (unknown.length > 0) {
    const found = unknown.map((one) => ({
      ...foundAgain(one, baseOf(one)),
      ready: readyFlag(reading.get(one.found.entity)),
    }));
    transitions.find(tx, { ...chain, connector, window, dueSince: now, found });
    for (const { index } of unknown) isDue[index] = true;
  }

  const met = open.flatMap((one): readonly Met[] => {
    const stored = known.get(one.name);
    return stored === undefined ? [] : [{ one, stored, isRenewed: stored.gone !== standing.live }];
  });
  if (met.length === 0) return isDue;
  const renewed = met.filter(({ isRenewed }) => isRenewed).map(({ stored }) => stored.id);
  if (renewed.length > 0) transitions.renew(tx, { ids: renewed });
  const foundNow = met.map(({ one, stored }) => ({ ...foundAgain(one, baseOf(one)), id: stored.id }));
  transitions.meet(tx, { ...chain, found: foundNow });
  const begun: Begun[] = [];
  for (const { one, stored, isRenewed } of met) {
    const { entity, marker } = one.found;
    const walks = isRenewed ? neverWalked : stored;
    if (isUnchanged(walks, marker, reading.get(entity))) continue;
    begun.push({ id: stored.id, entity, mode: decideMode(walks, reading.get(entity)) });
    isDue[one.index] = true;
  }
  await beginWalks(tx, finding, begun);
  return isDue;
}

interface Met {
  readonly one: Found;
  readonly stored: KnownRow;
  /** Found again below a record that was deleted or left out. */
  readonly isRenewed: boolean;
}

/**
 * Makes known partitions ready. What an earlier chain has kept of a position counts only for a walk of the same mode.
 */
export async function beginWalks(
  tx: Tx,
  { connector, origin, now, reading }: Omit<Finding, 'window'>,
  begun: readonly Begun[],
): Promise<void> {
  if (begun.length === 0) return;
  const walks = await transitions.begin(tx, {
    origin,
    now,
    begun: begun.map(({ id, entity, mode }) => ({ id, mode, ready: readyFlag(reading.get(entity)) })),
  });
  const entities = [...new Set(walks.filter(({ midway }) => midway === 1).map(({ entity }) => entity))];
  if (entities.length === 0) return;
  await tx.run(
    `UPDATE _sync_tables SET taken_over = :origin WHERE connector = :connector AND entity IN {entities text}`,
    { origin, connector, entities },
  );
}

/** The living partitions that a backfill's store rows of, by name; made where no sync has found them yet. */
async function findBases(
  tx: Tx,
  open: readonly Found[],
  { connector, now }: Finding,
): Promise<ReadonlyMap<string, number>> {
  const wanted = open.flatMap(({ found }): readonly FoundPartition[] =>
    found.base === null ? [] : [{ ...found, params: found.base, marker: null }],
  );
  if (wanted.length === 0) return new Map();
  const bases = firstOfEach(wanted);
  const ask = async (some: readonly Found[]): Promise<readonly (readonly [string, number])[]> =>
    [...(await knownPartitions(tx, { connector, window: '' }, some))].map(([name, { id }]) => [name, id]);
  const ids = new Map(await ask(bases));
  const unknown = bases.filter(({ name }) => !ids.has(name));
  if (unknown.length === 0) return ids;
  const found = unknown.map((one) => ({ ...foundAgain(one, null), ready: 0 as const }));
  transitions.find(tx, { connector, origin: 0, now, window: '', dueSince: null, found });
  return new Map([...ids, ...(await ask(unknown))]);
}

function firstOfEach(founds: readonly FoundPartition[]): readonly Found[] {
  const byName = new Map<string, Found>();
  for (const [index, found] of founds.entries()) {
    const params = writeJson(found.params);
    const paramsHash = textHash(params);
    const name = knownName(found.entity, paramsHash);
    if (!byName.has(name)) byName.set(name, { index, entity: found.entity, found, params, paramsHash, name });
  }
  return [...byName.values()];
}

function baseName(entity: EntityName, params: string): string {
  return knownName(entity, textHash(params));
}

function readyFlag(reading: ChainReading | undefined): 0 | 1 {
  return reading === undefined ? 0 : 1;
}

function foundAgain({ found, entity, params, paramsHash }: Found, base: number | null): FoundAgain {
  const { inject, rank, tree, treeDepth, parent, marker } = found;
  return {
    entity,
    params,
    paramsHash,
    base,
    inject: writeJson(inject),
    rank,
    tree,
    treeDepth,
    parentEntity: parent?.entity ?? null,
    parentKey: parent?.keyText ?? null,
    parentHash: parent === null ? null : textHash(parent.keyText),
    marker: marker?.isSettled === true ? marker.value : null,
  };
}
