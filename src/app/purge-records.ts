import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import { keyTextOf } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { rowMatcher } from '../search/match-rows.ts';
import type { EntityTarget } from '../settings/entity-target.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { FileFolder } from '../sinks/files.ts';
import { openFileFolder } from '../sinks/files/open-file-folder.ts';
import type { PurgedKeys, PurgedOf, PurgeEnd } from '../sinks/purges.ts';
import { openExistingRecords, openSink, storedStatus } from '../sinks/registry.ts';
import type { OpenHow, SinkPlace } from '../sinks/sink-access.ts';
import { programVersion } from './program-version.ts';

/** Which records: one by its key, or those that a filter of `search` finds, deleted ones included. */
export type PurgeChoice =
  { readonly kind: 'key'; readonly keyText: string } | { readonly kind: 'where'; readonly filter: JsonValue };

/** Of which entities, all of one connector; `name`: as a person wrote it. */
export interface PurgeTarget extends Pick<EntityTarget, 'name' | 'connector'> {
  readonly entities: readonly EntityTarget[];
}

/** A stored entity that the filter does not fit, such as one without its fields. */
export interface NotAsked {
  readonly entity: EntityName;
  readonly why: string;
}

export interface ChosenRecords {
  /** Also entities of which no record is meant. */
  readonly of: readonly PurgedKeys[];
  readonly notAsked: readonly NotAsked[];
}

type How = Pick<OpenHow, 'clock' | 'who'> & { readonly signal: AbortSignal };

/** What a purge would remove; changes nothing. Throws USAGE as `chosenInSink` does. */
export async function lookAtPurge(
  target: PurgeTarget,
  choice: PurgeChoice,
  how: How,
): Promise<ChosenRecords & { readonly entities: readonly PurgedOf[] }> {
  const chosen = await chosenInSink(target, choice, how.signal);
  await using sink = await openSink(target.connector.sink, how);
  return { ...chosen, entities: await sink.purges.look(target.connector.name, chosen.of) };
}

/**
 * Removes the records and all that belongs to them from the connector's sink. Throws what `Purges.purge` throws, and
 * USAGE as `chosenInSink` does, and where files are stored and the config no longer names their folder.
 */
export async function purgeRecords(
  target: PurgeTarget,
  choice: PurgeChoice,
  { canReturn, ...how }: How & { readonly canReturn: boolean },
): Promise<ChosenRecords & { readonly end: PurgeEnd }> {
  const { connector } = target;
  const { signal } = how;
  const chosen = await chosenInSink(target, choice, signal);
  await using sink = await openSink(connector.sink, how);
  const removeFile = removerOf(connector, how.clock);
  const asked = { of: chosen.of, canReturn, removeFile, signal };
  return { ...chosen, end: await sink.purges.purge(connector.name, asked) };
}

/** Which connector of its service a sink holds; null: it holds nothing of it. */
export async function storedConnectorId(connector: ConnectorSettings): Promise<string | null> {
  return (await storedStatus(connector))?.connectorId ?? null;
}

/** Throws USAGE where the sink holds nothing of the entities, and where the filter fits none that it holds. */
async function chosenInSink(
  target: PurgeTarget,
  choice: PurgeChoice,
  signal: AbortSignal,
): Promise<ChosenRecords> {
  const { name, connector, entities } = target;
  const chosen = await chooseRecords({ ...connector, entities }, choice, signal);
  if (chosen.of.length > 0) return chosen;
  const [first] = chosen.notAsked;
  if (first === undefined) {
    throw usage(`Sink ${connector.sink.name} holds nothing of ${name}, so there is nothing to purge.`);
  }
  throw usage(entities.length === 1 ? first.why : `The filter fits no entity. ${first.entity}: ${first.why}`);
}

/** By the key or from one state of a sink: that of the connector, or another that holds its records too. */
export async function chooseRecords(
  of: Pick<ConnectorSettings, 'name'> & {
    readonly sink: SinkPlace;
    readonly entities: PurgeTarget['entities'];
  },
  choice: PurgeChoice,
  signal: AbortSignal,
): Promise<ChosenRecords> {
  const { name: connector, sink, entities } = of;
  const chosen: PurgedKeys[] = [];
  const notAsked: NotAsked[] = [];
  await using reader = await openExistingRecords(sink);
  if (reader === null) return { of: chosen, notAsked };
  for (const { name, entity, table: declared, isExploded } of entities) {
    if (isExploded) {
      throw usage(
        `${name} holds elements of ${entity.name}; purge the record of ${entity.name} that has them.`,
      );
    }
    const table = await reader.table(connector, declared.entity);
    if (table === null) continue;
    if (choice.kind === 'key') {
      chosen.push({ entity: declared.entity, keyTexts: [choice.keyText] });
      continue;
    }
    let matches: ReturnType<typeof rowMatcher>;
    try {
      matches = rowMatcher({ connector, entity, table }, choice.filter);
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'SEARCH_INVALID') throw error;
      notAsked.push({ entity: declared.entity, why: error.message });
      continue;
    }
    const indexes = table.key.map((column) => table.columns.findIndex((one) => one.name === column));
    const keyTexts: string[] = [];
    for await (const rows of reader.changes(connector, table, 0)) {
      signal.throwIfAborted();
      for (const row of rows) {
        if (matches(row)) keyTexts.push(keyTextOf(indexes.map((index) => row.values[index] ?? null)));
      }
    }
    chosen.push({ entity: declared.entity, keyTexts });
  }
  return { of: chosen, notAsked };
}

/** Removes downloaded files of the connector. */
export function removerOf(connector: ConnectorSettings, clock: Clock) {
  const folderFor = folderOf(connector, clock);
  return async (entity: EntityName, file: string): Promise<void> =>
    await folderFor(entity).remove(entity, file, null);
}

/** The folder of downloaded files; throws USAGE where the config no longer names it. */
export function folderOf({ name, downloads }: ConnectorSettings, clock: Clock) {
  const folder =
    downloads === null ? null : openFileFolder({ directory: downloads.directory, connector: name, clock });
  return (entity: EntityName): FileFolder => {
    if (folder !== null) return folder;
    throw usage(
      `The sink knows of downloaded files of ${name}/${entity}, and the config no longer says where they are: name the folder (downloads.directory of ${name}), then purge again. Nothing of these records was removed.`,
    );
  };
}

/** A report that says what was removed without saying of whom. */
export interface PurgeReport {
  readonly report: JsonObject;
  readonly signature: {
    readonly algorithm: 'HMAC-SHA-256';
    readonly keyId: string;
    /** Of the report as JSON without white space, in hex. */
    readonly value: string;
  };
}

export function signedReport(
  { connector, name }: Pick<PurgeTarget, 'connector' | 'name'>,
  { at, who, entities, records, left, seal }: PurgeEnd,
  more: JsonObject,
): PurgeReport {
  const report: JsonObject = {
    format: 1,
    program: `connector-sync ${programVersion()}`,
    connector: connector.name,
    target: name,
    sink: connector.sink.name,
    at,
    who,
    records: records.map(({ entity, hmac }) => ({ entity, hmac })),
    removed: entities.map((one) => ({ ...one })),
    left: left.map((one) => ({ ...one })),
    ...more,
  };
  const value = seal.sign(JSON.stringify(report));
  return { report, signature: { algorithm: 'HMAC-SHA-256', keyId: seal.keyId, value } };
}

/** Whether the connector's sink has signed this report; null: its secret is another one. */
export async function isSignedHere(
  connector: ConnectorSettings,
  { report, signature }: PurgeReport,
): Promise<boolean | null> {
  await using reader = await openExistingRecords(connector.sink);
  const notes = (await reader?.history.purged(connector.name)) ?? null;
  if (notes === null || notes.seal.keyId !== signature.keyId) return null;
  const own = Buffer.from(notes.seal.sign(JSON.stringify(report)), 'hex');
  const given = Buffer.from(signature.value, 'hex');
  return own.length === given.length && timingSafeEqual(own, given);
}
