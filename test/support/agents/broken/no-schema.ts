export default { input: {}, output: {}, run: () => Promise.resolve('never') };
