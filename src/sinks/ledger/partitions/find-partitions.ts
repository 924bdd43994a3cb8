import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { decideMode, isUnchanged, neverWalked, type ChainReading } from '../../decisions/becoming-due.ts';
import { writeJson } from '../../../core/json-text.ts';
import { standing } from '../../decisions/standing.ts';
import type { FoundPartition, WalkMode } from '../../partition.ts';
import type { Tx } from '../../../sql/database.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { knownName, knownPartitions, type KnownRow } from './read-partitions.ts';
import { transitions } from './transitions.ts';
import type { FoundSet } from './walking.ts';

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
  readonly found: FoundPartition;
  readonly params: string;
  readonly paramsHash: Buffer;
  readonly name: string;
}

/** A partition to be made ready. */
export interface Begun {
  readonly id: number;
  readonly entity: EntityName;
  readonly mode: WalkMode;
}

/** Partitions that were found, with what is stored of them. */
export interface FoundAndKnown {
  readonly count: number;
  readonly distinct: readonly Found[];
  readonly known: ReadonlyMap<string, KnownRow>;
}

/** Reads what is known of found partitions. One that is given twice is found once. */
export async function meetFound(
  tx: Tx,
  founds: readonly FoundPartition[],
  finding: Finding,
): Promise<FoundAndKnown> {
  const distinct = firstOfEach(founds);
  const known =
    founds.length === 0
      ? new Map<string, KnownRow>()
      : await knownPartitions(tx, finding, distinct.map(entityAndParams));
  return { count: founds.length, distinct, known };
}

/**
 * Makes partitions due unless this chain already found them or nothing has changed in them; for each, whether it became due. One that is given
 * twice becomes due once.
 */
export async function findPartitions(
  tx: Tx,
  { count, distinct, known }: FoundAndKnown,
  finding: Finding,
): Promise<readonly boolean[]> {
  const isDue = Array.from({ length: count }, () => false);
  if (count === 0) return isDue;
  const { connector, window, origin, now, reading } = finding;
  const open = distinct.filter(({ name }) => known.get(name)?.origin !== origin);
  const bases = await findBases(tx, open, finding);
  const baseOf = ({ found }: Found): number | null =>
    found.base === null ? null : (bases.get(baseName(found.entity, writeJson(found.base))) ?? null);
  const chain = { connector, origin, now };

  const unknown = open.filter(({ name }) => !known.has(name));
  if (unknown.length > 0) {
    const ready = unknown.map(({ found }) => readyFlag(reading.get(found.entity)));
    transitions.find(tx, {
      ...chain,
      ...foundSet(unknown, unknown.map(baseOf)),
      window,
      dueSince: now,
      ready,
    });
    for (const { index } of unknown) isDue[index] = true;
  }

  const met = open.flatMap((one): readonly Met[] => {
    const stored = known.get(one.name);
    return stored === undefined ? [] : [{ one, stored, isRenewed: stored.gone !== standing.live }];
  });
  if (met.length === 0) return isDue;
  const renewed = met.filter(({ isRenewed }) => isRenewed).map(({ stored }) => stored.id);
  if (renewed.length > 0) transitions.renew(tx, { ids: renewed });
  const metFounds = met.map(({ one }) => one);
  const ids = met.map(({ stored }) => stored.id);
  transitions.meet(tx, { ...chain, ...foundSet(metFounds, metFounds.map(baseOf)), ids });
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

/** Makes known partitions ready. What an earlier chain has kept of a position counts only for a walk of the same mode. */
export async function beginWalks(
  tx: Tx,
  { connector, origin, now, reading }: Omit<Finding, 'window'>,
  begun: readonly Begun[],
): Promise<void> {
  if (begun.length === 0) return;
  const walks = await transitions.begin(tx, {
    connector,
    origin,
    now,
    ids: begun.map(({ id }) => id),
    modes: begun.map(({ mode }) => mode),
    ready: begun.map(({ entity }) => readyFlag(reading.get(entity))),
  });
  const entities = [...new Set(walks.filter(({ midway }) => midway === 1).map(({ entity }) => entity))];
  if (entities.length === 0) return;
  await tx.run(
    `UPDATE _sync_tables SET taken_over = :origin WHERE connector = :connector AND entity = ANY(:entities::text[])`,
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
    [...(await knownPartitions(tx, { connector, window: '' }, some.map(entityAndParams)))].map(
      ([name, { id }]) => [name, id],
    );
  const ids = new Map(await ask(bases));
  const unknown = bases.filter(({ name }) => !ids.has(name));
  if (unknown.length === 0) return ids;
  transitions.find(tx, {
    connector,
    origin: 0,
    now,
    ...foundSet(
      unknown,
      unknown.map(() => null),
    ),
    window: '',
    dueSince: null,
    ready: unknown.map(() => 0),
  });
  return new Map([...ids, ...(await ask(unknown))]);
}

function firstOfEach(founds: readonly FoundPartition[]): readonly Found[] {
  const byName = new Map<string, Found>();
  for (const [index, found] of founds.entries()) {
    const params = writeJson(found.params);
    const paramsHash = textHash(params);
    const name = knownName(found.entity, paramsHash);
    if (!byName.has(name)) byName.set(name, { index, found, params, paramsHash, name });
  }
  return [...byName.values()];
}

function entityAndParams({ found, params }: Found): { readonly entity: EntityName; readonly params: string } {
  return { entity: found.entity, params };
}

function baseName(entity: EntityName, params: string): string {
  return knownName(entity, textHash(params));
}

function readyFlag(reading: ChainReading | undefined): 0 | 1 {
  return reading === undefined ? 0 : 1;
}

function foundSet(list: readonly Found[], bases: readonly (number | null)[]): FoundSet {
  const founds = list.map(({ found }) => found);
  return {
    entities: founds.map(({ entity }) => entity),
    params: list.map(({ params }) => params),
    paramsHashes: list.map(({ paramsHash }) => paramsHash),
    bases,
    injects: founds.map(({ inject }) => writeJson(inject)),
    ranks: founds.map(({ rank }) => rank),
    trees: founds.map(({ tree }) => tree),
    treeDepths: founds.map(({ treeDepth }) => treeDepth),
    parentEntities: founds.map(({ parent }) => parent?.entity ?? null),
    parentKeys: founds.map(({ parent }) => parent?.keyText ?? null),
    parentHashes: founds.map(({ parent }) => (parent === null ? null : textHash(parent.keyText))),
    markers: founds.map(({ marker }) => (marker?.isSettled === true ? marker.value : null)),
  };
}
