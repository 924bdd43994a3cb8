export const openPostgresHistory: any = () => { throw new Error('later'); };
