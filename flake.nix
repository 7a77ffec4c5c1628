{
  description = "dahl trains neural networks as a graph of asynchronous tasks";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      forEach = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      # `nix build`, `nix run . -- train`
      packages = forEach (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "dahl";
          inherit (manifest) version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "--package" "dahl-cli" ];
          # The tests are for `nix develop`: they take longer than the build.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            installShellCompletion --cmd dahl \
              --bash <($out/bin/dahl completions bash) \
              --zsh <($out/bin/dahl completions zsh) \
              --fish <($out/bin/dahl completions fish)
          '';
          meta = {
            description = "Neural networks trained as a graph of asynchronous tasks";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "dahl";
          };
        };
      });

      # `nix develop`: all that building, testing and looking at task graphs needs.
      devShells = forEach (pkgs: {
        default = pkgs.mkShell {
          packages = with pkgs; [
            cargo
            rustc
            clippy
            rustfmt
            graphviz
          ];
        };
      });
    };
}
