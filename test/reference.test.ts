import { expect, it } from 'vitest';
import { referenceOfCommands, referenceOfMetrics } from './support/reference.ts';

it('has every command with its options, as docs/reference/commands.md does: npm run reference writes it again', async () => {
  await expect(await referenceOfCommands()).toMatchFileSnapshot('../docs/reference/commands.md');
});

// Proves promise 12.1
it('has every metric, as docs/reference/metrics.md does', async () => {
  await expect(await referenceOfMetrics()).toMatchFileSnapshot('../docs/reference/metrics.md');
});
