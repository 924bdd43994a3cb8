/** Resolves when other work of the process has had a turn: reads of a file do not wait for anything by themselves. */
export function otherTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
