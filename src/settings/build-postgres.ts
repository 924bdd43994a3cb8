import path from 'node:path';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { isLoopback } from './check-urls.ts';
import type { PostgresAddress } from './settings.ts';

type At = readonly (string | number)[];

const example = 'postgresql://user@host:5432/database';
const sslmodes = ['disable', 'require', 'verify-full'] as const;
const defaultPort = 5432;

/**
 * `postgresql://user:password@host1:5432,host2:5432/database?sslmode=verify-full&sslrootcert=ca.pem`, as libpq writes it; `password` beside it wins. A
 * folder for a socket is `?host=/var/run/postgresql`. Nothing of it is quoted: it may be secret. Of no use after a problem.
 */
export function buildPostgres(
  text: string,
  password: string | undefined,
  folder: string,
  at: At,
  note: Note,
): PostgresAddress {
  const parts = /^postgres(?:ql)?:\/\/(?:([^@/?#\s]*)@)?([^@/?#\s]*)(?:\/([^/?#\s]*))?(?:\?([^#\s]*))?$/.exec(
    text,
  );
  if (parts === null) {
    note(at, `expected an address such as ${example}; write @ / ? # in a password as %40 %2F %3F %23`);
    return unusable;
  }
  const [, credentials = '', places = '', name = '', query = ''] = parts;
  const [user = '', ...rest] = credentials.split(':').map((part) => decoded(part, at, note));
  const given = password ?? (rest.length === 0 ? null : rest.join(':'));
  const options = new URLSearchParams(query);
  for (const option of options.keys()) {
    if (!['sslmode', 'sslrootcert', 'host'].includes(option)) {
      note(at, 'expected no other options in the address than sslmode, sslrootcert and host');
    }
  }
  if (user === '') note(at, `expected a user: ${example}`);
  if (name === '') note(at, `expected a database: ${example}`);
  const socket = options.get('host');
  const hosts =
    socket === null
      ? places.split(',').map((place) => hostOf(place, at, note))
      : [socketOf(socket, places, at, note)];
  return {
    hosts,
    user,
    database: decoded(name, at, note),
    password: given === null || given === '' ? null : new Secret(given),
    sslmode: sslmodeOf(options.get('sslmode'), hosts, at, note),
    rootCertificate: options.has('sslrootcert')
      ? path.resolve(folder, options.get('sslrootcert') ?? '')
      : null,
  };
}

type Host = PostgresAddress['hosts'][number];

function hostOf(place: string, at: At, note: Note): Host {
  const found = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/.exec(place);
  const port = Number(found?.[2] ?? defaultPort);
  if (found === null || port < 1 || port > 65_535) note(at, `expected a host and a port: ${example}`);
  return { host: (found?.[1] ?? '').replace(/^\[|\]$/g, ''), port };
}

/** The name of the socket in its folder has the port. */
function socketOf(folder: string, place: string, at: At, note: Note): Host {
  if (!path.isAbsolute(folder)) note(at, 'expected the absolute path of a folder in host=');
  const port = Number(/^:(\d{1,5})$/.exec(place)?.[1] ?? defaultPort);
  if (place !== '' && !/^:\d{1,5}$/.test(place)) {
    note(at, 'expected no host in front of the database, because host= names a folder');
  }
  return { host: folder, port };
}

/** Without one: checked TLS, and none on this machine. */
function sslmodeOf(
  given: string | null,
  hosts: readonly Host[],
  at: At,
  note: Note,
): PostgresAddress['sslmode'] {
  if (given === null) {
    return hosts.every(({ host }) => host.startsWith('/') || isLoopback(host)) ? 'disable' : 'verify-full';
  }
  const known = sslmodes.find((mode) => mode === given);
  if (known === undefined) {
    note(
      at,
      `expected sslmode to be ${sslmodes.join(', ')}: the others of libpq would go on without TLS, or with a certificate of another host`,
    );
  }
  return known ?? 'verify-full';
}

function decoded(text: string, at: At, note: Note): string {
  try {
    return decodeURIComponent(text);
  } catch {
    note(at, 'expected % only in front of two hex digits; write % as %25');
    return '';
  }
}

const unusable: PostgresAddress = {
  hosts: [],
  database: '',
  user: '',
  password: null,
  sslmode: 'verify-full',
  rootCertificate: null,
};
