import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import { keyTextOf } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { rowMatcher } from '../search/match-rows.ts';
import type { EntityTarget } from '../settings/entity-target.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { FileFolder } from '../sinks/files.ts';
import { openFileFolder } from '../sinks/files/open-file-folder.ts';
import type { PurgedOf, PurgeEnd } from '../sinks/purges.ts';
import { openExistingRecords, openSink, storedStatus } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';
import { programVersion } from './program-version.ts';

/** Which records: one by its key, or those that a filter of `search` finds, deleted ones included. */
export type PurgeChoice =
  { readonly kind: 'key'; readonly keyText: string } | { readonly kind: 'where'; readonly filter: JsonValue };

type How = Pick<OpenHow, 'clock' | 'who'> & { readonly signal: AbortSignal };

/** What a purge would remove; changes nothing. Throws USAGE where nothing of the entity is stored. */
export async function lookAtPurge(
  target: EntityTarget,
  choice: PurgeChoice,
  how: How,
): Promise<{ readonly keys: number; readonly entities: readonly PurgedOf[] }> {
  const keyTexts = await chosenKeys(target, choice, how.signal);
  await using sink = await openSink(target.connector.sink, how);
  const { entity } = target.table;
  const entities = await sink.purges.look(target.connector.name, { entity, keyTexts });
  return { keys: keyTexts.length, entities };
}

/**
 * Removes the records and all that belongs to them from the connector's sink. Throws what `Purges.purge` throws, and
 * USAGE where files are stored and the config no longer names their folder.
 */
export async function purgeRecords(
  target: EntityTarget,
  choice: PurgeChoice,
  { canReturn, ...how }: How & { readonly canReturn: boolean },
): Promise<{ readonly end: PurgeEnd; readonly keyTexts: readonly string[] }> {
  const { connector, table } = target;
  const keyTexts = await chosenKeys(target, choice, how.signal);
  await using sink = await openSink(connector.sink, how);
  const removeFile = removerOf(connector, how.clock);
  const { signal } = how;
  const asked = { entity: table.entity, keyTexts, canReturn, removeFile, signal };
  return { end: await sink.purges.purge(connector.name, asked), keyTexts };
}

/** Which connector of its service a sink holds; null: it holds nothing of it. */
export async function storedConnectorId(connector: ConnectorSettings): Promise<string | null> {
  return (await storedStatus(connector))?.connectorId ?? null;
}

/** By the key or from one state of the sink. */
async function chosenKeys(
  { name, connector, entity, table: declared, isExploded }: EntityTarget,
  choice: PurgeChoice,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (isExploded) {
    throw usage(
      `${name} holds elements of ${entity.name}; purge the record of ${entity.name} that has them.`,
    );
  }
  await using reader = await openExistingRecords(connector.sink);
  const table = (await reader?.table(connector.name, declared.entity)) ?? null;
  if (reader === null || table === null) {
    throw usage(`Sink ${connector.sink.name} holds nothing of ${name}, so there is nothing to purge.`);
  }
  if (choice.kind === 'key') return [choice.keyText];
  const matches = rowMatcher({ connector: connector.name, entity, table }, choice.filter);
  const indexes = table.key.map((column) => table.columns.findIndex((one) => one.name === column));
  const keyTexts: string[] = [];
  for await (const rows of reader.changes(connector.name, table, 0)) {
    signal.throwIfAborted();
    for (const row of rows) {
      if (matches(row)) keyTexts.push(keyTextOf(indexes.map((index) => row.values[index] ?? null)));
    }
  }
  return keyTexts;
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
  { connector, name }: EntityTarget,
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
