import type { Clock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { readJsonIfWhole, isJsonObject, type JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import { keyTextOf } from '../core/records.ts';
import { entityMaskings } from '../engine/prepare/mask-row.ts';
import { rowMatcher } from '../search/read-request.ts';
import type { EntityTarget } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { FileFolder } from '../sinks/files.ts';
import { openFileFolder } from '../sinks/files/open-file-folder.ts';
import type { MaskEnd, MaskRequest, PurgedKeys, PurgeRequest } from '../sinks/requests.ts';
import { openExistingRecords, openSink } from '../sinks/registry.ts';
import type { OpenHow } from '../sinks/sink-access.ts';

/**
 * Selects records: one by its key, those that a filter of `search` finds, including deleted and refused ones, or all
 * that are in quarantine.
 */
export type PurgeChoice =
  | { readonly kind: 'key'; readonly keyText: string }
  | { readonly kind: 'where'; readonly filter: JsonValue }
  | { readonly kind: 'quarantine' };

/** Entities of one connector. `name`: as a person wrote it. */
export interface PurgeTarget extends Pick<EntityTarget, 'name' | 'connector'> {
  readonly entities: readonly EntityTarget[];
}

export type ChosenRecords = Awaited<ReturnType<typeof chooseRecords>>;

type How = Pick<OpenHow, 'clock' | 'who'> & { readonly signal: AbortSignal };

/** Finds the records that a purge would remove; changes nothing. Throws USAGE as `chosenInSink` does. */
export async function lookAtPurge(target: PurgeTarget, choice: PurgeChoice, how: How) {
  const chosen = await chosenInSink(target, choice, how.signal);
  await using sink = await openSink(target.connector.sink, how);
  return { ...chosen, entities: await sink.purges.look(target.connector.name, chosen.of) };
}

/**
 * Removes the records and all that belongs to them from the connector's sink. Throws as `purge` of the sink, and
 * USAGE as `chosenInSink` does, and where files are stored and the config no longer names their folder.
 */
export async function purgeRecords(
  target: PurgeTarget,
  choice: PurgeChoice,
  { canReturn, targets, ...how }: How & Pick<PurgeRequest, 'canReturn' | 'targets'>,
) {
  const { connector } = target;
  const { signal } = how;
  const chosen = await chosenInSink(target, choice, signal);
  await using sink = await openSink(connector.sink, how);
  const asked = { of: chosen.of, canReturn, targets, removeFile: removerOf(connector, how.clock), signal };
  return { ...chosen, end: await sink.purges.purge(connector.name, asked) };
}

/** Throws USAGE where the sink holds nothing of the entities, and where the filter fits none that it holds. */
async function chosenInSink(target: PurgeTarget, choice: PurgeChoice, signal: AbortSignal) {
  const { name, connector, entities } = target;
  const chosen = await chooseRecords(target, choice, signal);
  if (chosen.of.length > 0) return chosen;
  const [first] = chosen.notAsked;
  if (first === undefined) {
    throw usage(`Sink ${connector.sink.name} holds nothing of ${name}, so there is nothing to purge.`);
  }
  throw usage(entities.length === 1 ? first.why : `The filter fits no entity. ${first.entity}: ${first.why}`);
}

/** Finds them by the key, or in one state of the connector's sink. */
async function chooseRecords(
  { connector: { name: connector, sink }, entities }: PurgeTarget,
  choice: PurgeChoice,
  signal: AbortSignal,
) {
  /** Also has entities without a chosen record. */
  const chosen: PurgedKeys[] = [];
  /** Stored entities that the filter does not fit, such as those without its fields. */
  const notAsked: { readonly entity: EntityName; readonly why: string }[] = [];
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
    if (choice.kind === 'quarantine') {
      chosen.push({ entity: declared.entity, keyTexts: [], isRefusedMeant: () => true });
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
        if (matches.row(row)) keyTexts.push(keyTextOf(indexes.map((index) => row.values[index] ?? null)));
      }
    }
    const isRefusedMeant = (text: string): boolean => {
      const record = readJsonIfWhole(text);
      return isJsonObject(record) && matches.record(record);
    };
    chosen.push({ entity: declared.entity, keyTexts, isRefusedMeant });
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

/**
 * Applies the masks of the config to values that were stored before them; `isLook` only reports what would change.
 * Throws the errors of `rewrite` of the sink's masking, and USAGE if the connector has no mask.
 */
export async function maskStored(
  connector: ConnectorSettings,
  { isLook = false, ...how }: How & Pick<MaskRequest, 'targets'> & { readonly isLook?: boolean },
): Promise<MaskEnd> {
  const { name, masks, definition, sink: settings } = connector;
  if (masks.size === 0) throw usage(`The config has no mask for ${name}, so nothing of it is unmasked.`);
  const { clock, signal, targets } = how;
  const folderFor = folderOf(connector, clock);
  await using sink = await openSink(settings, how);
  const asked: MaskRequest = {
    masks: [...masks].map(([entity, { mask }]) => ({ entity, mask: mask.fingerprint, keyId: mask.keyId })),
    maskings: [...masks].flatMap(([entity, { mask }]) => {
      const masked = definition.entities.get(entity);
      return masked === undefined ? [] : entityMaskings(masked, mask);
    }),
    renameFile: async (entity, from, to) => {
      const folder = folderFor(entity);
      await (to === null ? folder.remove(entity, from, null) : folder.rename(entity, from, to));
    },
    targets,
    signal,
  };
  return isLook
    ? { ...(await sink.masking.look(name, asked)), left: [] }
    : await sink.masking.rewrite(name, asked);
}
