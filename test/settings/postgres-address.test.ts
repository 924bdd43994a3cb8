import { describe, expect, it } from 'vitest';
import { postgresAddress, readPostgresUrl } from '../../src/settings/postgres-address.ts';

function build(url: string, password?: string) {
  const problems: string[] = [];
  const read = readPostgresUrl(url, (message) => void problems.push(message));
  const address = postgresAddress(read, password, '/etc/sync');
  return { ...address, password: address.password?.reveal() ?? null, problems };
}

describe('the address of a PostgreSQL server', () => {
  it('has a user, a host, a port and a database', () => {
    expect(build('postgresql://sync@db.example.com:6432/warehouse')).toEqual({
      hosts: [{ host: 'db.example.com', port: 6432 }],
      database: 'warehouse',
      user: 'sync',
      password: null,
      sslmode: 'verify-full',
      rootCertificate: null,
      problems: [],
    });
  });

  it('checks certificates unless the server is on this machine', () => {
    const modeOf = (url: string): string => build(url).sslmode;
    expect(modeOf('postgres://u@127.0.0.1/d')).toBe('disable');
    expect(modeOf('postgres://u@[::1]/d')).toBe('disable');
    expect(modeOf('postgres://u@localhost,db.example.com/d')).toBe('verify-full');
    expect(modeOf('postgres:///d?host=/run/postgresql')).toBe('disable');
    expect(modeOf('postgres://u@db/d?sslmode=require')).toBe('require');
    expect(modeOf('postgres://u@db/d?sslmode=verify-ca&sslrootcert=ca.pem')).toBe('verify-ca');
    expect(modeOf('postgres://u@127.0.0.1/d?sslrootcert=ca.pem')).toBe('verify-full');
    expect(build('postgres://u@db/d?sslrootcert=system').rootCertificate).toBeNull();
    expect(build('postgres://u@db/d?sslmode=verify-full&sslrootcert=ca.pem').rootCertificate).toBe(
      '/etc/sync/ca.pem',
    );
  });

  it('may have several hosts, with ports of their own', () => {
    expect(build('postgres://u@a:1,b,[fe80::1]:3/d').hosts).toEqual([
      { host: 'a', port: 1 },
      { host: 'b', port: 5432 },
      { host: 'fe80::1', port: 3 },
    ]);
  });

  it('takes a password from the address, decoded, or from beside it', () => {
    expect(build('postgres://u:p%40%3Aq@h/d').password).toBe('p@:q');
    expect(build('postgres://u:one@h/d', 'p@/?#').password).toBe('p@/?#');
  });

  it.each([
    ['mysql://u@h/d', 'expected an address such as postgresql://user@host:5432/database'],
    ['postgres://u:p@ss/word@h/d', 'write @ / ? # in a password as %40 %2F %3F %23'],
    ['postgres://h/d', 'expected a user'],
    ['postgres://u@h', 'expected a database'],
    ['postgres://u@h:99999/d', 'expected a host and a port'],
    ['postgres://u@/d', 'expected a host and a port'],
    ['postgres://u@h/d?sslmode=prefer', 'expected sslmode to be disable, require, verify-ca, verify-full'],
    ['postgres://u@h/d?sslmode=verify-ca', 'expected sslrootcert with sslmode=verify-ca'],
    ['postgres://u@h/d?sslmode=verify-ca&sslrootcert=system', 'expected sslrootcert with sslmode=verify-ca'],
    ['postgres://u@h/d?sslmode=require&sslrootcert=ca.pem', 'expected no sslrootcert with sslmode=require'],
    ['postgres://u@h/d?options=-csearch_path', 'expected no other options'],
    ['postgres://u%zz@h/d', 'expected % only in front of two hex digits'],
    ['postgres://u@h/d?host=relative', 'expected the absolute path of a folder'],
  ])('refuses %s', (url, message) => {
    expect(build(url).problems.join('; ')).toContain(message);
  });

  it('never quotes what it refuses', () => {
    const { problems } = build('postgres://u:secret-word@h:x/d?sslmode=secret-word&secret-word=1');
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.join()).not.toContain('secret-word');
  });
});
