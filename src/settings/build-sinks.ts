import path from 'node:path';
import { postgresAddress, schemaOf } from './postgres-address.ts';
import { isConnectorName } from '../core/names.ts';
import type { Frozen } from '../definitions/frozen.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { SettingsFile, SinkFile } from './settings-file.ts';

export type Sink = Frozen<ReturnType<typeof buildSink>>;

/** Names that SQLite opens without creating a file: stored data would be lost with the process. */
const noFile = /^(:memory:$|file:)/;

/** The setting that no two sinks may share. */
const placeSettings = { sqlite: 'path', jsonl: 'directory', postgres: 'schema' } as const;

/** Several machines may write the same sink; files lie on one of them. */
export function isSharedSink(type: SinkFile['type']): boolean {
  return type === 'postgres';
}

/**
 * Builds the sinks by name, with absolute paths. Two sinks never share a file or a schema: each keeps separate books
 * about it.
 */
export function buildSinks(
  file: SettingsFile['sinks'],
  folder: string,
  note: Note,
): ReadonlyMap<string, Sink> {
  const sinks = new Map<string, Sink>();
  const nameByPlace = new Map<string, string>();
  for (const [name, written] of Object.entries(file)) {
    const at = ['sinks', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    const sink = buildSink(name, written, folder, note);
    const place = placeSettings[sink.type];
    if (noFile.test(sink.type === 'sqlite' ? path.basename(sink.path) : '')) {
      note([...at, 'path'], 'expected the path of a file on disk');
    }
    for (const occupied of occupiedPlaces(sink)) {
      const other = nameByPlace.get(occupied);
      if (other !== undefined) {
        note(
          [...at, place],
          `the sink ${other} already stores its records there; give each sink its own ${place}`,
        );
      }
      nameByPlace.set(occupied, name);
    }
    sinks.set(name, sink);
  }
  return sinks;
}

function buildSink(name: string, file: SinkFile, folder: string, note: Note) {
  switch (file.type) {
    case 'sqlite':
      return { ...file, name, path: path.resolve(folder, file.path) };
    case 'jsonl':
      return { ...file, name, directory: path.resolve(folder, file.directory) };
    case 'postgres': {
      const { type, url, directUrl, password, connections, durability } = file;
      const schema = schemaOf(name, file.schema, ['sinks', name, 'schema'], note);
      const connection = postgresAddress(url, password, folder);
      /** The address that bypasses a pooler; null: there is none. */
      const direct = directUrl === undefined ? null : postgresAddress(directUrl, password, folder);
      return { type, name, connection, direct, schema, connections, durability };
    }
  }
}

/** A JSONL sink's ledger is a database file inside its directory. */
function occupiedPlaces(sink: Sink): readonly string[] {
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
