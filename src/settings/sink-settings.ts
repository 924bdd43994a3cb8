import path from 'node:path';
import * as z from 'zod';
import { isConnectorName } from '../core/names.ts';
import { Secret } from '../core/secret.ts';
import { namePattern, type Note } from '../definitions/check-names.ts';
import type { Frozen } from '../definitions/frozen.ts';
import { strictObject, textAs } from '../definitions/schema-problems.ts';
import { expectedType } from '../definitions/suggest-name.ts';
import { isLoopbackHost } from '../http/guard-address.ts';
import { duration, missingHere, secret } from './texts.ts';

const durability = z
  .enum(['full', 'normal'])
  .default('full')
  .meta({ description: 'full survives a power loss; normal is faster and survives a crash of the program' });

/** Settings of sinks that are stored in files. */
const inFiles = {
  durability,
  lockTimeout: duration().prefault('60s').meta({
    description: "How long to wait while another program holds the write lock of the sink's database",
  }),
};

export const sinkFile = z.discriminatedUnion(
  'type',
  [
    strictObject({ type: z.literal('sqlite'), path: z.string().min(1), ...inFiles }).transform(
      ({ lockTimeout: lockTimeoutMs, ...rest }) => ({ ...rest, lockTimeoutMs }),
    ),
    strictObject({ type: z.literal('jsonl'), directory: z.string().min(1), ...inFiles }).transform(
      ({ lockTimeout: lockTimeoutMs, ...rest }) => ({ ...rest, lockTimeoutMs }),
    ),
    strictObject({
      type: z.literal('postgres'),
      url: postgresUrl().meta({
        description:
          'postgresql://user@host:5432/database, several hosts with commas; sslmode=verify-full is the default except on this machine',
      }),
      password: z.string().min(1).optional().meta(secret('Best as ${file:path} or ${VARIABLE}')),
      directUrl: postgresUrl().optional().meta({
        description:
          'Where url leads to a pooler: the address of the server itself, for locks that belong to a session',
      }),
      schema: z.string().optional().meta({ description: "Default: the sink's name, - as _" }),
      connections: z.int().min(2).max(200).default(10).meta({
        description: 'Connections that one process opens at most, besides one for its locks',
      }),
      durability,
    }),
  ],
  { error: expectedType('sqlite', 'jsonl', 'postgres') },
);

export type SinkFile = z.output<typeof sinkFile>;
export type Sink = Frozen<ReturnType<typeof buildSink>>;

/** Names that SQLite opens without creating a file: stored data would be lost with the process. */
const noFile = /^(:memory:$|file:)/;

/** Several machines may write the same sink; files lie on one of them. */
export function isSharedSink(type: SinkFile['type']): boolean {
  return type === 'postgres';
}

/** Builds the sinks by name, with absolute paths. */
export function buildSinks(file: Readonly<Record<string, SinkFile>>, folder: string, note: Note) {
  const sinks = new Map<string, Sink>();
  for (const [name, written] of Object.entries(file)) {
    const at = ['sinks', name];
    if (!isConnectorName(name)) note(at, `expected ${namePattern('_ or -')}`);
    const sink = buildSink(name, written, folder, note);
    if (noFile.test(sink.type === 'sqlite' ? path.basename(sink.path) : '')) {
      note([...at, 'path'], 'expected the path of a file on disk');
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

type NoteText = (message: string) => void;

const example = 'postgresql://user@host:5432/database';
const sslmodes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
const defaultPort = 5432;

export function postgresUrl() {
  return textAs(
    (text, note) => readPostgresUrl(text === missingHere ? example : text, note),
    z.string().min(1),
  );
}

/** Makes the paths absolute; they begin at `folder`. */
export function postgresAddress(
  { password: inUrl, rootCertificate, ...url }: ReturnType<typeof readPostgresUrl>,
  password: string | undefined,
  folder: string,
) {
  const given = password ?? inUrl;
  return {
    ...url,
    password: given === '' ? null : new Secret(given),
    /** The file of the certificates to trust; null: the system's. */
    rootCertificate: rootCertificate === null ? null : path.resolve(folder, rootCertificate),
  };
}

/**
 * Parses `postgresql://user:password@host1:5432,host2:5432/database?sslmode=verify-full&sslrootcert=ca.pem`, in the
 * format of libpq; a separate `password` takes precedence. A folder for a socket is `?host=/var/run/postgresql`.
 * Messages quote nothing of it: it may be secret. The result is unusable after a problem.
 */
export function readPostgresUrl(text: string, note: NoteText) {
  const parts = /^postgres(?:ql)?:\/\/(?:([^@/?#\s]*)@)?([^@/?#\s]*)(?:\/([^/?#\s]*))?(?:\?([^#\s]*))?$/.exec(
    text,
  );
  if (parts === null) {
    note(`expected an address such as ${example}; write @ / ? # in a password as %40 %2F %3F %23`);
    return unusable;
  }
  const [, credentials = '', places = '', name = '', query = ''] = parts;
  const [user = '', ...rest] = credentials.split(':').map((part) => decoded(part, note));
  const options = new URLSearchParams(query);
  for (const option of options.keys()) {
    if (!['sslmode', 'sslrootcert', 'host'].includes(option)) {
      note('expected no other options in the address than sslmode, sslrootcert and host');
    }
  }
  if (user === '') note(`expected a user: ${example}`);
  if (name === '') note(`expected a database: ${example}`);
  const socket = options.get('host');
  const hosts =
    socket === null
      ? places.split(',').map((place) => hostOf(place, note))
      : [socketOf(socket, places, note)];
  const given = options.get('sslrootcert');
  // "system" is libpq's name for the certificates that the system trusts, the default here.
  const file = given === '' || given === 'system' ? null : given;
  const sslmode = sslmodeOf(options.get('sslmode'), hosts, file, note);
  return {
    /**
     * Hosts in the order of attempts, until one is no standby. A host is a name, an address, or the absolute path of a
     * socket's folder.
     */
    hosts,
    user,
    database: decoded(name, note),
    /** Empty: none. */
    password: rest.join(':'),
    sslmode,
    rootCertificate: file,
  };
}

type Host = ReturnType<typeof hostOf>;

function hostOf(place: string, note: NoteText) {
  const found = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/.exec(place);
  const port = Number(found?.[2] ?? defaultPort);
  if (found === null || port < 1 || port > 65_535) note(`expected a host and a port: ${example}`);
  return { host: (found?.[1] ?? '').replace(/^\[|\]$/g, ''), port };
}

/** The name of the socket in its folder contains the port. */
function socketOf(folder: string, place: string, note: NoteText): Host {
  if (!path.isAbsolute(folder)) note('expected the absolute path of a folder in host=');
  const port = Number(/^:(\d{1,5})$/.exec(place)?.[1] ?? defaultPort);
  if (place !== '' && !/^:\d{1,5}$/.test(place)) {
    note('expected no host in front of the database, because host= names a folder');
  }
  return { host: folder, port };
}

/** The default is verified TLS, and no TLS on this machine unless a file with trusted certificates is given. */
function sslmodeOf(given: string | null, hosts: readonly Host[], file: string | null, note: NoteText) {
  if (given === null) {
    const isHere = hosts.every(({ host }) => host.startsWith('/') || isLoopbackHost(host));
    return isHere && file === null ? 'disable' : 'verify-full';
  }
  const mode = sslmodes.find((known) => known === given);
  if (mode === undefined) {
    note(
      `expected sslmode to be ${sslmodes.join(', ')}: allow and prefer of libpq continue without TLS where the server offers none`,
    );
  }
  if (mode === 'verify-ca' && file === null) {
    note(
      'expected sslrootcert with sslmode=verify-ca: any host can get a certificate of an authority that everybody trusts',
    );
  }
  if ((mode === 'require' || mode === 'disable') && file !== null) {
    note(
      `expected no sslrootcert with sslmode=${mode}, which checks no certificate; use verify-ca or verify-full`,
    );
  }
  return mode ?? 'verify-full';
}

function decoded(text: string, note: NoteText): string {
  try {
    return decodeURIComponent(text);
  } catch {
    note('expected % only in front of two hex digits; write % as %25');
    return '';
  }
}

/** The schema of a sink or target. Its name needs no quotes in SQL. */
export function schemaOf(owner: string, given: string | undefined, at: readonly string[], note: Note) {
  const schema = given ?? owner.replaceAll('-', '_');
  if (!/^(?!pg_)[a-z][a-z0-9_]{0,39}$/.test(schema)) {
    note(at, 'expected 1 to 40 lower-case letters, digits and _, beginning with a letter, not pg_');
  }
  return schema;
}

const unusable = {
  hosts: [] as Host[],
  database: '',
  user: '',
  password: '',
  sslmode: 'verify-full' as const,
  rootCertificate: null,
};
