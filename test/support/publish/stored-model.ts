import { systemClock } from '../../../src/core/clock.ts';
import { expect } from 'vitest';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import { keyTextOf, type Column, type ColumnValue, type EntityTable } from '../../../src/core/records.ts';
import { readManifest, manifestText, type Manifest } from '../../../src/publish/manifest.ts';
import type { EntityRows, PlannedEntity, Target } from '../../../src/publish/target.ts';
import type { StoredRecord } from '../../../src/sinks/readings.ts';

/** What a sink would hold, in memory, for tests of targets alone. */
export interface StoredModel {
  readonly entities: Map<string, StoredEntity>;
  seq: number;
}

export interface StoredEntity {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  columns: readonly Column[];
  key: readonly string[];
  /** Counts up with every table that is recreated. */
  generation: number;
  readonly rows: Map<string, StoredRecord>;
}

/** A row as it should be found: each value as text, JSON as it came. */
export type ModelRow = Readonly<Record<string, string | null>>;

export function emptyModel(): StoredModel {
  return { entities: new Map(), seq: 0 };
}

export function addEntity(
  model: StoredModel,
  name: string,
  columns: readonly Column[],
  key: readonly string[] = ['id'],
  connector = 'news',
): StoredEntity {
  const known = model.entities.get(name);
  const made: StoredEntity = {
    connector: connector as ConnectorName,
    entity: name as EntityName,
    columns,
    key,
    generation: (known?.generation ?? 0) + 1,
    rows: new Map(),
  };
  model.entities.set(name, made);
  return made;
}

const run = '20261122T100000000Z-0123abcd' as RunId;

export function instantOf(seq: number): string {
  return new Date(Date.UTC(2026, 10, 22) + seq).toISOString();
}

/** Values by name; what is not given is null. */
export function store(
  model: StoredModel,
  entity: StoredEntity,
  values: Readonly<Record<string, ColumnValue>>,
  extra: string | null = null,
): void {
  model.seq += 1;
  const { seq } = model;
  const all = entity.columns.map(({ name }) => values[name] ?? null);
  const record = { isDeleted: false, seq, changedAt: instantOf(seq), run, values: all, extra };
  entity.rows.set(keyTextOf(entity.key.map((name) => values[name] ?? null)), record);
}

/** By the values of its key. */
export function remove(model: StoredModel, entity: StoredEntity, ...key: readonly ColumnValue[]): void {
  const keyText = keyTextOf(key);
  const known = entity.rows.get(keyText);
  if (known === undefined) throw new Error(`${keyText} is not stored`);
  model.seq += 1;
  entity.rows.set(keyText, { ...known, isDeleted: true, seq: model.seq, changedAt: instantOf(model.seq) });
}

/** Rows of before have nothing in the new columns, and get it with their next change. */
export function addColumns(entity: StoredEntity, ...columns: readonly Column[]): void {
  entity.columns = [...entity.columns, ...columns];
  for (const [keyText, row] of entity.rows) {
    entity.rows.set(keyText, { ...row, values: [...row.values, ...columns.map(() => null)] });
  }
}

interface PublishModel {
  readonly createdAt?: string;
  /** Called when everything is written and nothing is committed. */
  readonly beforeCommit?: () => Promise<void>;
}

/** p1, p2, ..., all with the same name. */
export function people(model: StoredModel, count = 3): StoredEntity {
  const entity = addEntity(model, 'people', [
    { name: 'id', type: 'string' },
    { name: 'name', type: 'string' },
    { name: 'more', type: 'object' },
  ]);
  for (let id = 1; id <= count; id += 1) store(model, entity, { id: `p${id}`, name: 'Ada' });
  return entity;
}

/** Never aborted. */
export const untilEnd = new AbortController().signal;
/** How a target with tables is opened. */
export const tableHow = { keepMs: null, clock: systemClock, signal: untilEnd };

/** A target, and a model whose changes are published into it. */
export function publishedModel(target: Target, model: StoredModel = emptyModel()) {
  const publish = async (how?: PublishModel) => await publishModel(target, model, how);
  return {
    target,
    model,
    publish,
    /** Publishes a generation of people. */
    publishPeople: async (count?: number): Promise<StoredEntity> => {
      const entity = people(model, count);
      await publish();
      return entity;
    },
    problems: async () => (await target.check(untilEnd)).problems,
    refused: async (message: RegExp, code = 'TARGET_INCOMPATIBLE'): Promise<void> =>
      await expect(publish()).rejects.toMatchObject({ code, message: expect.stringMatching(message) }),
    [Symbol.asyncDispose]: async () => await target[Symbol.asyncDispose](),
  };
}

/** One publication of all that has changed since the newest one. */
export async function publishModel(
  target: Target,
  model: StoredModel,
  { createdAt = new Date().toISOString(), beforeCommit }: PublishModel = {},
): Promise<'published' | 'taken'> {
  const newest = await target.newest();
  const number = (newest?.manifest.publication ?? 0) + 1;
  await using publication = await target.begin(number);
  const entities: Manifest['entities'][number][] = [];
  for (const entity of model.entities.values()) {
    const planned = planOf(entity, newest?.manifest ?? null, number, model.seq);
    const { table, isNewGeneration, kinds: _kinds, described: _text, ...published } = planned;
    const written = await publication.write(planned, rowsOf(entity, planned, target.layout !== null));
    void table;
    void isNewGeneration;
    entities.push({ ...published, ...written });
  }
  const manifest: Manifest = {
    format: 1,
    publication: number,
    previous: newest === null ? null : { publication: number - 1, sha256: newest.sha256 },
    sink: 'sink-1',
    createdAt,
    by: { program: 'test', host: 'here' },
    entities,
  };
  readManifest(manifestText(manifest));
  await beforeCommit?.();
  return await publication.commit(manifest);
}

function planOf(
  { connector, entity, columns, key, generation }: StoredEntity,
  before: Manifest | null,
  number: number,
  through: number,
): PlannedEntity {
  const known = before?.entities.find((one) => one.connector === connector && one.entity === entity);
  const isNewGeneration = known?.generation !== generation;
  const published = columns.map(({ name, type }) => ({ name, field: name, type }));
  const isSame = JSON.stringify(published) === JSON.stringify(known?.columns);
  return {
    connector,
    entity,
    layout: null,
    generation,
    base: isNewGeneration ? number : (known?.base ?? number),
    tableId: `t${generation}`,
    schema: (known?.schema ?? 0) + (isSame ? 0 : 1),
    key,
    columns: published,
    after: isNewGeneration ? 0 : (known?.through ?? 0),
    through,
    asOf: null,
    run: null,
    table: tableOf({ entity, columns, key }),
    kinds: new Map(),
    described: null,
    isNewGeneration,
  };
}

export function tableOf({
  entity,
  columns,
  key,
}: Pick<StoredEntity, 'entity' | 'columns' | 'key'>): EntityTable {
  return { entity, columns, key };
}

function rowsOf(
  entity: StoredEntity,
  { after, isNewGeneration }: PlannedEntity,
  hasFiles: boolean,
): EntityRows {
  const all = [...entity.rows.values()].toSorted((one, other) => one.seq - other.seq);
  const live = all.filter(({ isDeleted }) => !isDeleted);
  return {
    changes: inBatches(all.filter(({ seq }) => seq > after)),
    snapshot: isNewGeneration && hasFiles ? inBatches(live) : null,
  };
}

/** Small ones, and an empty one. */
async function* inBatches(records: readonly StoredRecord[]): AsyncGenerator<readonly StoredRecord[]> {
  for (let first = 0; first < records.length; first += 700) yield records.slice(first, first + 700);
  if (records.length === 0) yield [];
}

/** The rows that a reader should find, without those that are deleted. */
export function expectedModelRows(entity: StoredEntity): ReadonlyMap<string, ModelRow> {
  return new Map(
    [...entity.rows].flatMap(([keyText, row]) => {
      if (row.isDeleted) return [];
      const values = entity.columns.map(({ name, type }, index): [string, string | null] => [
        name,
        valueText(type, row.values[index] ?? null),
      ]);
      const own = { _extra: row.extra, _seq: String(row.seq), _changed_at: row.changedAt, _run_id: row.run };
      return [[keyText, { ...Object.fromEntries(values), ...own, _deleted: 'false', _deleted_at: null }]];
    }),
  );
}

export function valueText(type: Column['type'], value: ColumnValue): string | null {
  if (value === null) return null;
  if (type === 'boolean') return Number(value) === 0 ? 'false' : 'true';
  if (type === 'number') return numberText(Number(value));
  return String(value);
}

export function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
