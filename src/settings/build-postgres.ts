import path from 'node:path';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import { isLoopback } from './check-urls.ts';
import type { PostgresAddress } from './settings.ts';

type At = readonly (string | number)[];

const example = 'postgresql://user@host:5432/database';
const sslmodes = ['disable', 'require', 'verify-ca', 'verify-full'] as const;
const defaultPort = 5432;

/**
 * `postgresql://user:password@host1:5432,host2:5432/database?sslmode=verify-full&sslrootcert=ca.pem`, as libpq writes
 * it; `password` beside it wins. A folder for a socket is `?host=/var/run/postgresql`. Nothing of it is quoted: it may
 * be secret. Of no use after a problem.
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
  const file = rootFile(options.get('sslrootcert'));
  const sslmode = sslmodeOf(options.get('sslmode'), hosts, file, at, note);
  return {
    hosts,
    user,
    database: decoded(name, at, note),
    password: given === null || given === '' ? null : new Secret(given),
    sslmode,
    rootCertificate: file === null ? null : path.resolve(folder, file),
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

/** `system` is libpq's word for the certificates that the system trusts, which is the default here. */
function rootFile(given: string | null): string | null {
  return given === null || given === '' || given === 'system' ? null : given;
}

/** Without one: checked TLS, and none on this machine, unless a file says whose certificates are trusted. */
function sslmodeOf(
  given: string | null,
  hosts: readonly Host[],
  file: string | null,
  at: At,
  note: Note,
): PostgresAddress['sslmode'] {
  if (given === null) {
    const isHere = hosts.every(({ host }) => host.startsWith('/') || isLoopback(host));
    return isHere && file === null ? 'disable' : 'verify-full';
  }
  const mode = sslmodes.find((known) => known === given);
  if (mode === undefined) {
    note(
      at,
      `expected sslmode to be ${sslmodes.join(', ')}: allow and prefer of libpq continue without TLS where the server offers none`,
    );
  }
  if (mode === 'verify-ca' && file === null) {
    note(
      at,
      'expected sslrootcert with sslmode=verify-ca: any host can get a certificate of an authority that everybody trusts',
    );
  }
  if ((mode === 'require' || mode === 'disable') && file !== null) {
    note(
      at,
      `expected no sslrootcert with sslmode=${mode}, which checks no certificate; use verify-ca or verify-full`,
    );
  }
  return mode ?? 'verify-full';
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
