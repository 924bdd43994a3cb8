/**
 * Lost connections to a server: the one that answers next may be another server, or have lost commits, and is checked
 * before it is written to. `Found` is what the checks get.
 */
export function watchLosses<Found>() {
  /** Since the last check. */
  let isLost = false;
  const checks: ((found: Found) => Promise<unknown>)[] = [];
  let checking: Promise<void> | null = null;

  const checkAll = async (found: Found): Promise<void> => {
    isLost = false;
    try {
      for (const check of checks) await check(found);
    } catch (error) {
      isLost = true;
      throw error;
    }
  };

  return {
    /** A connection was lost. */
    notice: (): void => void (isLost = true),
    /** As `Server.afterLoss`. */
    afterLoss: (check: (found: Found) => Promise<unknown>): void => void checks.push(check),
    /** Whether a connection was lost, and the server has not been checked since. */
    isUnchecked: (): boolean => checks.length > 0 && (isLost || checking !== null),
    /** Resolves when the server has been checked since the last loss; concurrent calls share one check. */
    checkFirst: async (found: Found): Promise<void> => {
      // `finally` runs after the assignment even where there are no checks.
      if (isLost) checking ??= checkAll(found).finally(() => (checking = null));
      await checking;
    },
  };
}
