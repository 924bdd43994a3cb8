import path from 'node:path';
import { buildDuration } from './parse-unit.ts';
import { buildPostgres } from './build-postgres.ts';
import { isConnectorName } from '../core/names.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { SettingsFile, SinkFile } from './settings-file.ts';
import type { SinkSettings } from './settings.ts';

/** Names that SQLite opens without making a file: what is stored there is gone with the process. */
const noFile = /^(:memory:$|file:)/;

interface SinkType {
  /** The setting that no two sinks may share. */
  readonly placeSetting: string;
  /** Several machines may write the same sink; files lie on one of them. */
  readonly isShared: boolean;
}

const sinkTypes: Readonly<Record<SinkSettings['type'], SinkType>> = {
  sqlite: { placeSetting: 'path', isShared: false },
  jsonl: { placeSetting: 'directory', isShared: false },
  postgres: { placeSetting: 'schema', isShared: true },
};

export function isSharedSink(type: SinkSettings['type']): boolean {
  return sinkTypes[type].isShared;
}

/** After a problem in the file, which ends the reading of it. */
const minuteMs = 60_000;

/**
 * The sinks by name, with absolute paths. Two sinks never share a file or a schema: each keeps its own account of it.
 */
export function buildSinks(
  file: SettingsFile['sinks'],
  folder: string,
  note: Note,
): ReadonlyMap<string, SinkSettings> {
  const sinks = new Map<string, SinkSettings>();
  const nameByPlace = new Map<string, string>();
  for (const [name, written] of Object.entries(file)) {
    const at = ['sinks', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    const sink = buildSink(name, written, folder, note);
    const place = sinkTypes[sink.type].placeSetting;
    if (noFile.test(sink.type === 'sqlite' ? path.basename(sink.path) : '')) {
      note([...at, 'path'], 'expected the path of a file on disk');
    }
    for (const occupied of occupiedPlaces(sink)) {
      const other = nameByPlace.get(occupied);
      if (other !== undefined) {
        note(
          [...at, place],
          `the sink ${other} already stores its records there; give each sink its own ${place}`,
          ['sinks', name],
          ['sinks', other],
        );
      }
      nameByPlace.set(occupied, name);
    }
    sinks.set(name, sink);
  }
  return sinks;
}

function buildSink(name: string, file: SinkFile, folder: string, note: Note): SinkSettings {
  const at = ['sinks', name];
  const { durability } = file;
  if (file.type === 'postgres') {
    const { connections, directUrl, password } = file;
    const schema = file.schema ?? name.replaceAll('-', '_');
    if (!schemaName.test(schema)) {
      note(
        [...at, 'schema'],
        'expected 1 to 40 lower-case letters, digits and _, beginning with a letter, not pg_',
      );
    }
    const connection = buildPostgres(file.url, password, folder, [...at, 'url'], note);
    const direct =
      directUrl === undefined ? null : buildPostgres(directUrl, password, folder, [...at, 'directUrl'], note);
    return { type: 'postgres', name, connection, direct, schema, connections, durability };
  }
  const lockTimeoutMs = buildDuration(file.lockTimeout, minuteMs, [...at, 'lockTimeout'], note);
  const how = { name, durability, lockTimeoutMs };
  return file.type === 'sqlite'
    ? { ...how, type: 'sqlite', path: path.resolve(folder, file.path) }
    : { ...how, type: 'jsonl', directory: path.resolve(folder, file.directory) };
}

/** It needs no quotes in a person's own statements. */
export const schemaName = /^(?!pg_)[a-z][a-z0-9_]{0,39}$/;

/** A JSONL sink's ledger is a database file inside its directory. */
function occupiedPlaces(sink: SinkSettings): readonly string[] {
  switch (sink.type) {
    case 'sqlite':
      return [sink.path];
    case 'jsonl':
      return [sink.directory, path.join(sink.directory, '_ledger.db')];
    case 'postgres':
      return sink.connection.hosts.map(({ host, port }) =>
        JSON.stringify([host, port, sink.connection.database, sink.schema]),
      );
  }
}
