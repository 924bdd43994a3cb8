import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { createScrubber } from '../../src/telemetry/scrubber.ts';

describe('the scrubber', () => {
  it('removes a secret in every spelling it takes', () => {
    const scrubber = createScrubber();
    const secret = 'p"ä s/s=w+o%rd';
    scrubber.register(new Secret(secret));
    const spellings = [
      secret,
      JSON.stringify({ secret }),
      `https://example.com/?secret=${encodeURIComponent(secret)}`,
      `Basic ${Buffer.from(secret).toString('base64')}`,
    ];
    for (const text of spellings) {
      expect(scrubber.scrub(text)).toContain('[secret]');
      for (const spelling of spellings) expect(scrubber.scrub(text)).not.toContain(spelling);
    }
  });

  it('removes the password of a secret URL wherever it stands alone', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('redis://user:hunter%212@host:6379'));
    expect(scrubber.scrub('WRONGPASS hunter!2 or hunter%212')).toBe('WRONGPASS [secret] or [secret]');
  });

  it('removes a secret whole that contains another one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret('abcd'));
    scrubber.register(new Secret('abcd-tail'));
    expect(scrubber.scrub('abcd-tail')).toBe('[secret]');
  });

  it('removes unregistered bearer tokens', () => {
    expect(createScrubber().scrub('{"authorization":"Bearer eyJ.x-y_z","next":1}')).toBe(
      '{"authorization":"Bearer [secret]","next":1}',
    );
  });

  it('leaves text alone when a secret is too short to be one', () => {
    const scrubber = createScrubber();
    scrubber.register(new Secret(''));
    scrubber.register(new Secret('a'));
    expect(scrubber.scrub('banana')).toBe('banana');
  });
});
