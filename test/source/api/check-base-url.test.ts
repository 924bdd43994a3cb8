import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { guardedLookup } from '../../../src/http/guard-address.ts';
import { guardAddress } from '../../../src/source/api/api-caller.ts';

function lookUp(addresses: readonly string[], isPlainHttp: boolean, all: boolean): Promise<unknown> {
  const found: LookupAddress[] = addresses.map((address) => ({
    address,
    family: address.includes(':') ? 6 : 4,
  }));
  const lookup = guardedLookup(
    (address) => guardAddress(address, isPlainHttp),
    (_hostname, done) => done(null, found),
  );
  return new Promise((resolve, reject) => {
    lookup('api.example.com', { all }, (error, address) =>
      error === null ? resolve(address) : reject(error),
    );
  });
}

describe('an address a host name leads to', () => {
  it.each([
    '169.254.169.254',
    '169.254.0.1',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '64:ff9b::a9fe:a9fe',
    'fe80::1',
    'fd00:ec2::254',
  ])('%s is refused, with https and http', async (address) => {
    expect(() => guardAddress(address, false)).toThrow('link-local');
    await expect(lookUp([address], false, false)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
    await expect(lookUp(['93.184.216.34', address], false, true)).rejects.toMatchObject({
      code: 'ERR_ADDRESS_REFUSED',
    });
  });

  it.each(['10.0.0.1', '192.168.1.1', '93.184.216.34', '::ffff:10.0.0.1', '2001:db8::1', '0.0.0.0'])(
    '%s is refused for http, and allowed for https',
    async (address) => {
      await expect(lookUp([address], true, true)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
      expect(await lookUp([address], false, false)).toBe(address);
    },
  );

  it.each(['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1'])('%s is this machine', async (address) => {
    expect(await lookUp([address], true, false)).toBe(address);
    expect(await lookUp([address], true, true)).toEqual([expect.objectContaining({ address })]);
  });

  it('must exist', async () => {
    await expect(lookUp([], false, true)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
  });

  it('is not looked for after an error of the name service', async () => {
    const failure = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    const lookup = guardedLookup(
      (address) => guardAddress(address, false),
      (_hostname, done) => done(failure, []),
    );
    const seen = await new Promise((resolve) => {
      lookup('x.example', { all: true }, (error) => resolve(error));
    });
    expect(seen).toBe(failure);
  });
});
