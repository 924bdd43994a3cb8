import { describe, expect, it } from 'vitest';
import { closable } from '../../src/app/start-scheduled-runs.ts';

const boom = new Error('it does not close');

/** Opens three things, of which the second does not close. */
async function openThree(closed: number[], end: () => Promise<void> = () => Promise.resolve()) {
  return await closable(async (onOpened, close) => {
    for (const one of [1, 2, 3]) {
      onOpened(async () => {
        await Promise.resolve();
        closed.push(one);
        if (one === 2) throw boom;
      });
    }
    await end();
    return { close };
  });
}

describe('what was opened', () => {
  it('is closed once, the last first, also where one does not close', async () => {
    const closed: number[] = [];
    const { close } = await openThree(closed);
    expect(await Promise.allSettled([close(), close()])).toEqual([
      { status: 'rejected', reason: boom },
      { status: 'rejected', reason: boom },
    ]);
    expect(closed).toEqual([3, 2, 1]);
  });

  it('is closed where a later one does not open, and the error says why', async () => {
    const closed: number[] = [];
    const opening = openThree(closed, () => Promise.reject(new Error('the port is taken')));
    await expect(opening).rejects.toThrow('the port is taken');
    expect(closed).toEqual([3, 2, 1]);
  });
});
