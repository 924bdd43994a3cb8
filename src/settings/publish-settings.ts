import { realpathSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { isConnectorName, type ConnectorName } from '../core/names.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { buildPublishPlace, type SettingsFile } from './settings-file.ts';
import type { ConnectorSettings, PublishPlace, PublishSettings, SinkSettings } from './settings.ts';

interface Known {
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorSettings>;
  /** Names in the config, including connectors that are left out because of a problem. */
  readonly named: readonly string[];
  /** The folder in which relative paths begin. */
  readonly folder: string;
}

/** Names that no target may have. */
export const publishCommands: readonly string[] = ['status', 'check', 'snapshot', 'prune', 'schema', 'help'];

/** Builds the targets by name. */
export function buildPublish(file: SettingsFile['publish'], known: Known, note: Note) {
  const targets = new Map<string, PublishSettings>();
  for (const [name, target] of Object.entries(file)) {
    const at = ['publish', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    if (publishCommands.includes(name)) {
      note(at, `expected another name: "publish ${name}" is a command`);
    }
    const { connectors, when, times, snapshotEveryMs, keepMs, ...written } = target;
    const place = buildPublishPlace(name, written, known.folder, note);
    targets.set(name, {
      ...place,
      name,
      connectors: connectorsOf(connectors, known, at, note),
      when,
      times,
      snapshotEveryMs,
      keepMs,
    });
  }
  return targets;
}

function connectorsOf(
  names: readonly string[] | undefined,
  { connectors: all, named }: Known,
  at: readonly string[],
  note: Note,
): readonly ConnectorSettings[] {
  names?.forEach((name, index) => {
    const here = [...at, 'connectors', String(index)];
    if (!named.includes(name)) {
      note(here, `no such connector: ${JSON.stringify(name)}${suggestName(name, named)}`);
    } else if (names.indexOf(name) !== index) note(here, `${name} is named twice`);
  });
  const chosen = (names ?? named).flatMap((name) => {
    const known = isConnectorName(name) ? all.get(name) : undefined;
    return known === undefined ? [] : [known];
  });
  const sinks = [...new Set(chosen.map(({ sink }) => sink.name))];
  if (named.length === 0) note(at, 'expected at least one connector in the config');
  if (sinks.length > 1) {
    note(
      [...at, ...(names === undefined ? [] : ['connectors'])],
      `expected connectors of one sink, got those of ${sinks.join(' and ')}: a publication shows one state of its sink. Make a target for each`,
    );
  }
  return chosen;
}

/** The setting that no two sinks or targets may share. */
const placeSettings = {
  sqlite: 'path',
  jsonl: 'directory',
  files: 'directory',
  s3: 'bucket',
  postgres: 'schema',
  duckdb: 'path',
} as const;

/**
 * Reports places that two share: each sink keeps separate books about its own, and the content of its place identifies
 * a target. `isWhole`: false for a part of the config that lacks a value here, so that its place is not known.
 */
export function checkPlaces(
  sinks: ReadonlyMap<string, SinkSettings>,
  targets: ReadonlyMap<string, PublishSettings>,
  isWhole: (part: string) => boolean,
  note: Note,
): void {
  const taken: { readonly place: Place; readonly owner: string }[] = [];
  const parts = [
    ['sinks', sinks, isDeepStrictEqual],
    ['publish', targets, overlap],
  ] as const;
  for (const [part, owners, isShared] of parts) {
    for (const [name, place] of owners) {
      const owner = `${part}.${name}`;
      for (const own of isWhole(owner) ? placesOf(place) : []) {
        const other = taken.find((one) => isShared(own, one.place));
        if (other !== undefined) {
          const where = relationOf(own, other.place);
          note([part, name, placeSettings[place.type]], `${where} ${other.owner}; give each its own`);
        }
        taken.push({ place: own, owner });
      }
    }
  }
}

/** The kind of storage, and the names of the path in it. */
type Place = readonly [kind: string, names: readonly string[]];

function placesOf(place: PublishPlace | SinkSettings): readonly Place[] {
  switch (place.type) {
    case 'files':
      return [fileAt(place.directory)];
    case 'jsonl':
      // Its ledger is a database file inside its directory.
      return [fileAt(place.directory), fileAt(path.join(place.directory, '_ledger.db'))];
    case 'duckdb':
    case 'sqlite':
      return [fileAt(place.path)];
    case 's3':
      return [
        [
          JSON.stringify(['bucket', place.endpoint, place.bucket]),
          place.prefix.split('/').filter((name) => name !== ''),
        ],
      ];
    case 'postgres':
      return place.connection.hosts.map(({ host, port }) => [
        JSON.stringify(['postgres', host, port, place.connection.database]),
        [place.schema],
      ]);
  }
}

function fileAt(name: string): Place {
  return ['file', realPath(name).split(path.sep)];
}

/** Resolves links, for the part of the path that exists. */
function realPath(name: string): string {
  try {
    return realpathSync(name);
  } catch {
    const parent = path.dirname(name);
    return parent === name ? name : path.join(realPath(parent), path.basename(name));
  }
}

function relationOf([, own]: Place, [, other]: Place): string {
  if (own.length === other.length) return 'is the place of';
  return own.length > other.length ? 'lies inside the place of' : 'contains the place of';
}

/** A glob over the outer one would include the files of the inner one. */
function overlap([kind, names]: Place, [otherKind, others]: Place): boolean {
  const length = Math.min(names.length, others.length);
  return kind === otherKind && names.slice(0, length).every((name, index) => name === others[index]);
}
