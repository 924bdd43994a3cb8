import { SyncError, usage } from '../core/errors.ts';
import { isLikeGlob } from '../core/names.ts';
import type { Column, EntityTable } from '../core/records.ts';
import { describeTables } from '../definitions/describe-tables.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { Exclusion } from '../settings/mcp-settings.ts';
import { type EntityTarget, sinksOf, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from '../settings/settings.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';
import { readState, stateOf } from './answer.ts';

/** A connector that agents may see. */
export type ShownConnector = ConnectorSettings & {
  /** Entities and fields of it that agents do not see. */
  readonly exclude: readonly Exclusion[];
};

/** An entity that agents may see. */
export type ShownEntity = NonNullable<ReturnType<typeof shownEntity>>;

export type ShownEntities = ReturnType<typeof shownEntities>;

/** The connectors of a config that agents may see. */
export function connectorsOf(settings: LocalSettings): readonly ShownConnector[] {
  const { connectors: globs, exclude } = settings.mcp;
  return [...settings.connectors.values()]
    .filter(({ name }) => globs.length === 0 || globs.some((glob) => isLikeGlob(name, glob)))
    .map((connector) => ({
      ...connector,
      exclude: exclude.filter((one) => one.connector === null || one.connector === connector.name),
    }));
}

/** The entities of these connectors that agents may see. No tool and no message reveals others. */
export function shownEntities(connectors: readonly ShownConnector[]) {
  const shown = (connector: ShownConnector): readonly ShownEntity[] =>
    targetsOf(connector).flatMap((target) => shownEntity(target, connector.exclude) ?? []);
  const connectorNamed = (name: string): ShownConnector => {
    const found = connectors.find((one) => one.name === name);
    if (found !== undefined) return found;
    const names = connectors.map((one) => one.name);
    const hint = suggestName(name, names) || '.';
    throw usage(`There is no connector "${name}"${hint} list_entities names them.`);
  };
  return {
    connectors,
    of: shown,
    connectorNamed,
    /** The entity of `<connector>/<entity>`. Throws USAGE for one that agents do not see. */
    named: (text: string): ShownEntity => {
      const [connectorText = '', entityText = '', ...rest] = text.split('/');
      if (entityText === '' || rest.length > 0) {
        throw usage(`expected an entity as <connector>/<entity>, got "${text}". list_entities names them.`);
      }
      const connector = connectorNamed(connectorText);
      const all = shown(connector);
      const found = all.find(({ target }) => target.table.entity === entityText);
      if (found !== undefined) return found;
      const names = all.map(({ target }) => target.table.entity);
      throw usage(
        `${connectorText} has no entity "${entityText}"${suggestName(entityText, names) || '.'} list_entities with name "${connectorText}" names them.`,
      );
    },
  };
}

/** Connectors of one answer, whose sinks are read for it. */
const mostConnectors = 200;

/** By name, those behind `after`: all of them, and as many as one answer has. */
export function pageAfter(connectors: readonly ShownConnector[], after: string) {
  const left = connectors
    .filter(({ name }) => name > after)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return { left, page: left.slice(0, mostConnectors) };
}

/**
 * Null: agents do not see it. Where a field is excluded, undeclared fields are not shown either: the excluded one may
 * come among them, under another name.
 */
function shownEntity(target: EntityTarget, exclude: readonly Exclusion[]) {
  const { entity, table, isExploded } = target;
  const fieldsOf = (name: string | undefined) =>
    exclude.filter((one) => one.entity === name).map(({ field }) => field);
  const { explode, explodedTable } = entity;
  const [ofRecord, ofElements] = [fieldsOf(entity.name), fieldsOf(explodedTable?.entity)];
  const hasNoElements = [...ofElements, ...ofRecord].some((one) => one === null || one === explode?.field);
  if (isExploded ? hasNoElements : ofRecord.includes(null)) return null;
  // A name that is hidden in one of the two is hidden in both: a search joins them.
  const hidden = new Set([...ofRecord, ...ofElements]);
  if (hidden.size === 0) return { target, only: null, searched: null };
  const shown = ({ columns }: EntityTable): readonly string[] =>
    columns.map(({ name }) => name).filter((name) => !hidden.has(name));
  const elements = explodedTable === null || hasNoElements ? [] : shown(explodedTable);
  return {
    target,
    /** Names of its declared columns that agents may see; null: all that is stored, undeclared fields too. */
    only: new Set(shown(table)),
    /** The same for a search of the entity, which joins records and the elements that are stored as separate rows. */
    searched: new Set([...shown(entity.table), ...elements]),
  };
}

/** The stored columns that are shown. */
export function columnsOf({ only }: ShownEntity, stored: EntityTable): readonly Column[] {
  return only === null ? stored.columns : stored.columns.filter(({ name }) => only.has(name));
}

/**
 * An entity in one state of its sink, whichever process writes. The caller disposes it. `reader` and `stored` are null
 * where nothing is stored. Throws COPY_UNFINISHED, and what reading the sink throws.
 */
export async function openEntity(shown: ShownEntity) {
  const { connector, table } = shown.target;
  const reader = await openExistingRecords(connector.sink);
  try {
    if (reader !== null) await checkCopied(reader.history, connector.name);
    return {
      reader,
      stored: (await reader?.table(connector.name, table.entity)) ?? null,
      state: reader === null ? stateOf(shown, null, []) : await readState(reader.history, shown),
      [Symbol.asyncDispose]: async () => await reader?.[Symbol.asyncDispose](),
    };
  } catch (error) {
    await reader?.[Symbol.asyncDispose]();
    throw error;
  }
}

/** State of a connector in its sink. */
export interface StoredConnector {
  /** Null: nothing is stored. */
  readonly status: ConnectorStatus | null;
  readonly freshness: ConnectorOverview['freshness'];
  /** Why it cannot be read; null: it can. */
  readonly problem: string | null;
}

/** Each sink is read in one state. One that cannot be read does not hide the others. By the name of a connector. */
export async function readConnectors(connectors: readonly ShownConnector[]) {
  const found = new Map<string, StoredConnector>();
  for (const sink of sinksOf(connectors)) {
    const within = connectors.filter((one) => one.sink.name === sink.name);
    try {
      await readSink(sink, within, found);
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      for (const { name } of within) found.set(name, { status: null, freshness: [], problem: error.message });
    }
  }
  return found;
}

async function readSink(
  sink: SinkSettings,
  within: readonly ShownConnector[],
  found: Map<string, StoredConnector>,
): Promise<void> {
  await using reader = await openExistingRecords(sink);
  const copies = await reader?.history.copies();
  const statuses = (await reader?.history.connectors(within.map(({ name }) => name))) ?? [];
  for (const { name } of within) {
    const isCopying = copies?.unfinished.has(name) === true;
    found.set(name, {
      status: statuses.find(({ connector }) => connector === name) ?? null,
      freshness: (await reader?.history.freshness(name)) ?? [],
      problem: isCopying ? 'Only a part of it is stored: it is being copied from another sink.' : null,
    });
  }
}

/** Describes an entity for its readers. `stored`: its table in the sink; null: nothing is stored. */
export function describeEntity(shown: ShownEntity, stored: EntityTable | null) {
  const { connector, entity, table } = shown.target;
  const parents = entity.parents
    .map((parent) => parent.entity)
    .filter((parent) => connector.entities.has(parent));
  const described = describeTables(entity, parents).find((one) => one.entity === table.entity);
  const columns = columnsOf(shown, stored ?? table);
  const isShown = (name: string): boolean => columns.some((column) => column.name === name);
  return {
    about:
      described?.description ??
      (shown.target.isExploded ? `elements of ${entity.explode?.field ?? ''} of ${entity.name}` : null),
    key: table.key,
    /** `list_id is lists.id`: which record of another entity a row belongs to. */
    joins: (described?.joins ?? [])
      .filter((join) => join.columns.every(isShown))
      .map((join) =>
        join.columns
          .map((column, index) => `${column} is ${join.parent}.${join.parentColumns[index] ?? ''}`)
          .join(', '),
      ),
    fields: columns.map(({ name, type }) => ({ name, type, about: described?.columns[name] ?? '' })),
  };
}
