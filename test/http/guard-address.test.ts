import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { AddressRefusedError, guardedLookup, isPublicAddress } from '../../src/http/guard-address.ts';

describe('an address of the public internet', () => {
  it.each(
    (
      '93.184.216.34 172.15.255.255 172.32.0.1 192.167.1.1 100.63.0.1 223.255.255.1 ' +
      '2606:2800:220:1:248:1893:25c8:1946 ::ffff:93.184.216.34 64:ff9b::93.184.216.34'
    ).split(' '),
  )('is %s', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it.each(
    (
      '127.0.0.1 127.8.8.8 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 ' +
      '100.64.0.1 192.0.0.8 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ' +
      '::ffff:7f00:1 ::ffff:10.0.0.1 ::10.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe fe80::1 fec0::1 ' +
      'fc00::1 fd00:ec2::254 ff02::1 2002:7f00:1:: 2001::1 2001:db8::1 100::1 64:ff9b:1::1 localhost'
    ).split(' '),
  )('is not %s', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
});

it('judges every address of a name, and hands out none of them where one is refused', async () => {
  const judge = (address: string): void => {
    if (!isPublicAddress(address)) throw new AddressRefusedError(`${address} is not public`);
  };
  const found: LookupAddress[] = ['93.184.216.34', '10.0.0.1'].map((address) => ({ address, family: 4 }));
  const lookUp = (addresses: readonly LookupAddress[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      guardedLookup(judge, (_name, done) => done(null, addresses))(
        'a.example',
        { all: true },
        (error, got) => (error === null ? resolve(got) : reject(error)),
      );
    });
  await expect(lookUp(found)).rejects.toMatchObject({ code: 'ERR_ADDRESS_REFUSED' });
  expect(await lookUp(found.slice(0, 1))).toEqual(found.slice(0, 1));
});
